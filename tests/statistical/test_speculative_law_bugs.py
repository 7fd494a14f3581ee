"""Would a wrong sampler be noticed? Bugs planted in the real loop, one by one.

Each has to push a statistic of ``test_speculative_law.py`` over its threshold, or to yield what the law rules out, in
an eighth of the sequences. Which one notices says what the others cannot see: a draft whose cache has a hole costs
acceptance only, and one noise for all sequences leaves each of them right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from runtime import decode_loop, sampling, verification
from runtime.decode_loop import run_to_end, start
from runtime.decode_state import DecodeState, Setting
from runtime.drafters import ModelDrafter
from runtime.forcing import Forcing
from runtime.sampling import Sampling
from runtime.transformer import Decoder
from tests.law_cases import Case, excesses, fits
from tests.tiny_models import decoder, noisy, prompts, tiny

SAMPLES = 2**17
PLAIN = Case(Sampling(), lookahead=2)
ROOMY = Case(Sampling(), lookahead=2, spare=16)
TRUNCATED = Case(Sampling(top_k=5), lookahead=2)
RULED_OUT = "samples ruled out"

accept, at_position, draw, judge = verification.accept, verification.at_position, sampling.draw, verification.judge
read, choose = ModelDrafter.step, Sampling.choose


def one_key_for_draft_and_verdict(key: jax.Array) -> tuple[jax.Array, ...]:
    return jax.random.fold_in(key, 0), jax.random.fold_in(key, 1), jax.random.fold_in(key, 1)


def from_the_draft(target: jax.Array, draft: jax.Array) -> jax.Array:
    return jnp.where(jnp.any(draft > 0, axis=-1, keepdims=True), draft, target)


class OneKey:
    """Acceptance and the token after it use the same numbers."""

    def accept(self, key: jax.Array, *proposal: jax.Array) -> jax.Array:
        self.key = key
        return accept(key, *proposal)

    def draw(self, _: jax.Array, logits: jax.Array) -> jax.Array:
        return draw(self.key, logits)


def unfiltered(rule: Sampling) -> Sampling:
    return Sampling(rule.temperature)


def raw_target(rule: Sampling, *rest: Any) -> Any:
    return judge(unfiltered(rule), *rest)


def raw_draft(self: ModelDrafter[Any], cache: Any, tokens: jax.Array, cursor: jax.Array, key: jax.Array) -> Any:
    _, probs, after = read(self, cache, tokens, cursor, key)
    token, _, _ = read(replace(self, sampling=unfiltered(self.sampling)), cache, tokens, cursor, key)
    return token, probs, after


def bonus_from_the_row_before(values: jax.Array, position: jax.Array) -> jax.Array:
    last_drafted = PLAIN.lookahead - 1
    return at_position(values, jnp.minimum(position, last_drafted))


def without_rollback(state: DecodeState) -> jax.Array:
    return state.prompt_tokens + state.rounds * (PLAIN.lookahead + 1)


def first_token_skipped(
    self: ModelDrafter[Any], cache: Any, tokens: jax.Array, cursor: jax.Array, key: jax.Array
) -> Any:
    return read(self, cache, tokens[:, -1:], cursor + tokens.shape[1] - 1, key)


def one_noise_for_all(key: jax.Array, logits: jax.Array) -> jax.Array:
    return sampling.likeliest(logits + jax.random.gumbel(key, logits.shape[-1:], logits.dtype))


@dataclass(frozen=True)
class Bug:
    """What is replaced by what, and which statistic has to notice."""

    patches: tuple[tuple[Any, str, Any], ...]
    case: Case = PLAIN
    noticed_by: str = "tokens"


def bug(owner: Any, name: str, wrong: Any, case: Case = PLAIN, noticed_by: str = "tokens") -> Bug:
    return Bug(((owner, name, wrong),), case, noticed_by)


ONE_KEY = OneKey()
CURSOR: Callable[[DecodeState], jax.Array] = vars(DecodeState)["cursor"].fget
BUGS = {
    "residual from the draft": bug(verification, "residual", from_the_draft),
    "residual from the target": bug(verification, "residual", lambda target, _: target),
    "one key for draft and verdict": bug(decode_loop, "round_keys", one_key_for_draft_and_verdict),
    "one key for acceptance and draw": Bug(
        ((verification, "accept", ONE_KEY.accept), (verification, "draw", ONE_KEY.draw))
    ),
    "raw target, filtered draft": bug(decode_loop, "judge", raw_target, TRUNCATED, RULED_OUT),
    "raw draft, filtered probabilities": bug(ModelDrafter, "step", raw_draft, TRUNCATED),
    "bonus from the row before": bug(verification, "at_position", bonus_from_the_row_before),
    "rejected entries stay in the cache": bug(DecodeState, "cursor", property(without_rollback), ROOMY),
    "cursor one too high": bug(DecodeState, "cursor", property(lambda state: CURSOR(state) + 1), ROOMY),
    "cursor one too low": bug(DecodeState, "cursor", property(lambda state: CURSOR(state) - 1)),
    "draft's first token skipped": bug(ModelDrafter, "step", first_token_skipped, noticed_by="accepted"),
    "one noise for all sequences": Bug(
        ((sampling, "draw", one_noise_for_all), (verification, "draw", one_noise_for_all)),
        Case(Sampling(), batch=8),
        "pairs",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    planted = BUGS[name]
    for patch in planted.patches:
        monkeypatch.setattr(*patch)
    found = fits(planted.case, SAMPLES)
    noticed: dict[str, float] = excesses(found) | {RULED_OUT: found["tokens"].ruled_out}
    record_property("times the threshold", ", ".join(f"{law} {factor:,.2f}" for law, factor in noticed.items()))
    assert noticed[planted.noticed_by] > 2


def greedy(target: Decoder, draft: Decoder) -> tuple[bool, float]:
    """Whether every token is the likeliest after those before it, and accepted tokens a round; never from a cache."""
    length, setting = 24, Setting(24, PLAIN.lookahead, 128, Sampling(temperature=0.0))
    asked = prompts(8, 5, target.spec.vocabulary)

    @jax.jit
    def run(models: tuple[Decoder, Decoder]) -> tuple[jax.Array, jax.Array, jax.Array]:
        state = run_to_end(setting, *models, start(setting, *models, asked, jax.random.key(0)), Forcing())
        told = state.tokens[:, :length]
        fed = jnp.concatenate([asked, told[:, :-1]], axis=1)
        logits, _ = models[0](fed, models[0].empty_cache(len(fed), 128), jnp.zeros(len(fed), jnp.int32), fresh=True)
        wanted = sampling.likeliest(logits[:, asked.shape[1] - 1 :])
        full = state.accepted[:, : length // (PLAIN.lookahead + 1) - 1]
        return told, wanted, full

    told, wanted, full = run((target, draft))
    return bool((told == wanted).all()), float(full.mean())


@pytest.mark.parametrize("name", ["", "rejected entries stay in the cache", "cursor one too high"])
def test_a_transformers_greedy_output_shows_where_its_cache_is_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patch in BUGS[name].patches if name else ():
        monkeypatch.setattr(*patch)
    target = decoder(tiny(layers=1), 0)
    right, accepted = greedy(target, noisy(target, 1, 0.15))
    assert right == (not name)
    assert name or 0.2 < accepted < PLAIN.lookahead - 0.2, "both acceptances and rejections must be exercised"


@pytest.mark.parametrize("skipped", [False, True])
def test_a_draft_that_is_the_target_is_accepted_unless_its_cache_has_a_hole(
    skipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if skipped:
        monkeypatch.setattr(ModelDrafter, "step", first_token_skipped)
    target = decoder(tiny(layers=1), 0)
    right, accepted = greedy(target, target)
    assert right
    assert (accepted == PLAIN.lookahead) == (not skipped)
