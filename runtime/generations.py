"""Real generations, timed from caches that hold the prompt to the last token."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import jax
import numpy as np

from runtime import programs
from runtime.decode_state import DecodeState
from runtime.forcing import Forcing
from runtime.generate import finish, prefill
from runtime.streams import stream
from runtime.timing import Run
from simulator.spec.acceptance import Acceptance


@dataclass
class Generations:
    """Real generations of one point: each run is one, from caches that hold the prompt; its units are rounds."""

    bench: programs.Bench
    acceptance: Acceptance
    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    tokens_per_round: list[float] = field(default_factory=list)
    count: int = 0

    def build(self) -> Run:
        """Compile the loop over rounds."""
        bench = self.bench
        compiled = finish.lower(bench.setting, bench.pair, self._start(0), self._forcing(0)).compile()

        def run(_: int) -> float:
            self.count += 1
            state, forcing = jax.block_until_ready((self._start(self.count), self._forcing(self.count)))
            started = time.perf_counter()
            state = jax.block_until_ready(compiled(bench.pair, state, forcing))
            self.seconds.append(time.perf_counter() - started)
            accepted = np.asarray(state.accepted)
            self.tokens_per_round.append(1.0 + float(accepted[accepted >= 0].mean()))
            self.rounds.append(int(np.asarray(state.rounds).max()))
            return self.seconds[-1] / self.rounds[-1]

        return run

    def forget(self) -> None:
        """Drop the samples so far."""
        for samples in (self.seconds, self.rounds, self.tokens_per_round):
            samples.clear()

    def _forcing(self, count: int) -> Forcing:
        return self.bench.forcing(self.acceptance, f"forced generation {count}")

    def _start(self, count: int) -> DecodeState:
        """Both models have read the prompt; other random choices follow every time."""
        bench = self.bench
        prompts = bench.random_tokens(bench.prompt_tokens)
        state: DecodeState = prefill(bench.setting, bench.pair, prompts, stream(bench.seed, f"generation {count}"))
        return state
