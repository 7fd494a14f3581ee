"""Requests one after the other in the slots of a running batch.

Between two rounds a slot whose request is done takes the next one. Prompts are padded to a power of two, for each of
which one program is compiled; the round is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.decode_state import DecodeState, Setting, Wanted
from runtime.forcing import Forcing
from runtime.generate import refuse_undrafted, refuse_unfit, refuse_unknown, within
from runtime.kv_cache import room
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.shapes import PRNGKey
from runtime.slots import admit, empty_slots
from runtime.stepping import Emission, Report, Rounds
from simulator.spec.acceptance import Acceptance

SMALLEST_BUCKET = 16


@dataclass(frozen=True)
class Request:
    """A prompt to be continued."""

    name: str
    prompt: Sequence[int]
    output_tokens: int
    """Tokens wanted; it gets fewer if one of them is a stop token."""


class Delivery(NamedTuple):
    """New tokens of a request."""

    name: str
    tokens: list[int]
    done: bool
    """Whether these are its last."""


@dataclass(frozen=True)
class Desk:
    """What requests are served with."""

    slots: int
    """B, requests that are decoded together."""
    prompt_tokens: int
    """The longest prompt."""
    output_tokens: int
    """The most tokens that a request may want."""
    lookahead: int
    """K; 0 is plain decoding."""
    sampling: Sampling
    """How tokens are chosen."""
    stop_tokens: tuple[int, ...] = ()
    """A request is done with the first of these that it emits."""
    policy: Policy | None = None
    """What chooses how many tokens each round drafts; always K unless given."""
    forced: Acceptance | None = None
    """A law or list that overrides the accepted counts."""

    @property
    def setting(self) -> Setting:
        """What the decoding loop is compiled for."""
        positions = room(bucket(self.prompt_tokens), self.output_tokens, self.lookahead)
        return Setting(self.output_tokens, self.lookahead, positions, self.sampling, self.stop_tokens)


def bucket(length: int) -> int:
    """The length to which a prompt is padded: a power of two, so that few programs serve all lengths."""
    return max(SMALLEST_BUCKET, 1 << (length - 1).bit_length())


def serve(pair: Pair, requests: Iterable[Request], desk: Desk, key: PRNGKey) -> Iterator[Delivery]:
    """Continue every request; what it is told depends on those decoded beside it through chance and rounding alone.

    Requests are taken in their order, each when a slot is free. Tokens are delivered as they come: the first of a
    request after its prefill, the others after each round.

    Raises:
        RefusedError: no draft, a stop token outside the vocabulary, or a policy for another lookahead; later, when it
            is taken, a request without a prompt or for more than ``desk`` allows.
    """
    if desk.lookahead:
        refuse_undrafted(pair, desk.lookahead)
    refuse_unfit(desk.policy, desk.lookahead)
    refuse_unknown(desk.stop_tokens, pair.target.spec.vocabulary)
    return _Server(pair if desk.lookahead else pair.without_draft(), desk, key).run(iter(requests))


class _Server:
    """The batch, and which request each of its slots holds."""

    def __init__(self, pair: Pair, desk: Desk, key: PRNGKey) -> None:
        self.pair, self.desk, self.setting = pair, desk, desk.setting
        forcing = Forcing.of(desk.forced, desk.lookahead, desk.slots, desk.output_tokens, key)
        self.rounds = Rounds.of(self.setting, pair, forcing)
        self.state: DecodeState = empty_slots(self.setting, pair, desk.slots, key, desk.policy)
        self.names: dict[int, str] = {}

    def run(self, requests: Iterator[Request]) -> Iterator[Delivery]:
        """Deliver until there are neither requests nor busy slots."""
        while True:
            free = [slot for slot in range(self.desk.slots) if slot not in self.names]
            firsts = [(slot, self._admit(slot, request)) for slot, request in zip(free, requests, strict=False)]
            if not self.names:
                return
            # The round is under way while the first tokens are fetched; in it, sequences that are finished rest.
            self.state, report = self.rounds.after(self.state)
            for slot, first in firsts:
                yield from self._deliver([slot], first)
            yield from self._deliver(range(self.desk.slots), report)

    def _admit(self, slot: int, request: Request) -> Report:
        """Give a slot to a request, without waiting for its first token."""
        desk, length = self.desk, len(request.prompt)
        lengths = within(f"prompt tokens of {request.name}", length, desk.prompt_tokens, 1)
        outputs = within(f"output tokens of {request.name}", request.output_tokens, desk.output_tokens, 1)
        prompt = np.zeros((1, bucket(length)), np.int32)
        prompt[0, :length] = request.prompt
        first: Report
        self.state, first = admit(self.setting, self.pair, self.state, np.int32(slot), prompt, Wanted(lengths, outputs))
        self.names[slot] = request.name
        return first

    def _deliver(self, slots: Sequence[int], report: Report) -> Iterator[Delivery]:
        """Wait for the tokens of some slots; say what each busy one of them emitted."""
        emission = Emission.fetch(report)
        for row, slot in enumerate(slots):
            if slot in self.names:
                done = bool(emission.finished[row])
                name = self.names.pop(slot) if done else self.names[slot]
                yield Delivery(name, emission.tokens[row].tolist(), done)
