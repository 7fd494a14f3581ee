"""Axis legend, and the array types that it makes readable.

    B  sequences decoded together         N  query heads
    T  new tokens of a step               G  key-value heads
    S  positions allocated in the cache   H  size of one head
    K  lookahead, tokens drafted a round  V  vocabulary
    D  width of the residual stream       L  layers
    F  feed-forward width                 X  chips

``rows`` is B x T flattened: every matmul against weights sees [rows, D]. Inside ``shard_map`` the axes N, G, F and V
are a chip's own share of them, padding included.
"""

from __future__ import annotations

import jax
from jaxtyping import Bool, Float, Float32, Int32, Key

Tokens = Int32[jax.Array, "B T"]
"""Token ids of a step."""
TokenPerSequence = Int32[jax.Array, " B"]
"""One token id a sequence."""
Cursor = Int32[jax.Array, " B"]
"""Positions of each sequence that the cache holds: where the next one is written."""
Count = Int32[jax.Array, " B"]
"""A count a sequence."""

Rows = Float[jax.Array, "rows D"]
"""Activations between the blocks of a layer."""
Queries = Float[jax.Array, "B T N H"]
"""Queries of the new tokens; query heads that share a KV head are neighbours."""
NewKeys = Float[jax.Array, "B G T H"]
"""Keys or values of the new tokens."""
LayerCache = Float[jax.Array, "B G S H"]
"""Cached keys or values of one layer."""
Distances = Float[jax.Array, "N S H"]
"""Of one layer, the products of its projection with every distance, for relative positions."""
Visible = Bool[jax.Array, "B T S"]
"""Which positions a new token may attend to."""

Logits = Float32[jax.Array, "B T V"]
"""Unnormalised log-probabilities after each token of a step."""
Probs = Float32[jax.Array, "B K V"]
"""Distributions, one a drafted position."""
Weights = Float32[jax.Array, "B V"]
"""Non-negative weights over the vocabulary, not necessarily normalised."""
PRNGKey = Key[jax.Array, ""]
"""A typed key of ``jax.random.key``."""
