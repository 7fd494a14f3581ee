"""ProbeRecord: one micro-benchmark of a machine, from which a calibration is fitted."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from simulator.spec.fields import Strict
from simulator.spec.model import ModelSpec

ProbeKind = Literal[
    "decode_step",  # one forward pass of T = 1 and a token drawn from its logits
    "forward",  # one forward pass of T tokens, no token drawn
    "first_draft_step",  # one forward pass of T = 2 of `model`, right after one of `partner`
    "verification",  # accept or reject T - 1 tokens and draw one, from logits that are there
    "round",  # one whole round in a loop of rounds: `model` drafts T - 1 tokens for `partner`
    "generation",  # the same in real generations from a prompt to the last token, with the tokens counted
    "dispatch",  # one call of a compiled program that does next to nothing, waited for
    "all_reduce",  # one all-reduce of `payload` bytes on every chip
]


FORCED_RATE = 0.7
"""Acceptance rate that timed rounds and generations are forced to. What a round takes does not depend on it."""

Role = Literal["fit", "test", "control"]


class _Data(Strict):
    """Written by programs, not by people: names as in code, SI units, bare numbers."""

    model_config = ConfigDict(alias_generator=None)


class HostDescription(_Data):
    """What machine and software made a record."""

    platform: str
    """cpu, gpu or tpu."""
    device: str
    """What the platform calls the device."""
    processor: str = ""
    """The processor's name."""
    cores: Annotated[int, Field(ge=1)]
    """Cores that the process may use."""
    cpu_flags: tuple[str, ...] = ()
    """Those of the processor's flags that matter here."""
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    """Memory of the host, or of one device."""
    versions: dict[str, str] = {}
    """Versions of Python and of the libraries."""


class Timing(_Data):
    """A measured time: median and the 5th and 95th percentile of its windows."""

    median: float
    """Seconds."""
    low: float
    """Seconds, 5th percentile."""
    high: float
    """Seconds, 95th percentile."""
    windows: Annotated[int, Field(ge=1)]
    """Windows kept."""
    dropped: Annotated[int, Field(ge=0)] = 0
    """Windows dropped because other processes were busy."""


class ProbePoint(_Data):
    """What is timed: a kind of work and the shapes it is done on."""

    kind: ProbeKind
    role: Role = "fit"
    """Whether a calibration is fitted to it, tested on it, or drift is seen by it."""
    chips: Annotated[int, Field(ge=1)]
    """X, devices."""
    batch: Annotated[int, Field(ge=1)] = 1
    """B, sequences."""
    tokens: Annotated[int, Field(ge=1)] = 1
    """T, tokens of the pass."""
    positions: Annotated[int, Field(ge=0)] = 0
    """S, positions that attention reads: the allocated length of the cache."""
    payload_bytes: Annotated[float, Field(ge=0)] = 0.0
    """Bytes on every chip (all_reduce)."""
    model: ModelSpec | None = None
    """The model that runs."""
    partner: ModelSpec | None = None
    """The model that ran before it, or the target of the round."""

    @property
    def key(self) -> str:
        """First 12 hex digits of the SHA-256 of what is timed, whatever role it plays."""
        shared = self.model_dump(mode="json", include=set(ProbePoint.model_fields) - {"role"}, exclude_defaults=True)
        return digest(shared)

    @property
    def rows(self) -> int:
        """B x T."""
        return self.batch * self.tokens


class ProbeRecord(ProbePoint):
    """One measured time and the shapes it belongs to."""

    schema_version: Literal[1] = 1
    time: Timing
    """Seconds; of a round and a generation, of one round."""
    tokens_per_round: Annotated[float, Field(ge=1)] | None = None
    """Tokens that a round emitted on average (generation)."""
    process: str = ""
    """In which process of a design it was timed."""
    host: HostDescription

    @property
    def id(self) -> str:
        """First 12 hex digits of the SHA-256 of the record."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return self.model_dump(mode="json", exclude_defaults=True) | {"schema_version": 1}


def digest(data: Any) -> str:
    """First 12 hex digits of the SHA-256 of plain data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
