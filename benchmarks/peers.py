"""The quickstart pair under our loop on the device and under Hugging Face assisted generation, in one run.

    pip install torch transformers        # beside this project with its [runtime] extra
    python benchmarks/peers.py [--lookahead 4] [--dtype float32 bfloat16]

Both engines run the same random weights, one sequence, greedy, with every drafted token kept: the head is zero, so that
target and draft always choose the first token, and all work is done. Times are those of one round at full acceptance;
what a round takes beyond its parts, K draft steps and one verification of K+1 tokens measured alone, is the overhead.
Programs of both are visited in turn, windows with foreign load are dropped, medians are given with their 5 % and 95 %.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from runtime import programs
from runtime.loading import load, save
from runtime.mesh import chip_mesh
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.timing import Run, Session, build_all, interleaved
from runtime.transformer import Decoder
from simulator.spec.acceptance import ForcedAcceptance
from simulator.spec.load import load_scenario
from simulator.spec.model import ModelSpec

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "quickstart_cpu.yaml"
PROMPT, OUTPUT = 64, 240


def specs(dtype: str) -> tuple[ModelSpec, ModelSpec]:
    """Target and wide draft of the quickstart in one type of weights."""
    point = load_scenario(SCENARIO, ["draft.model=quickstart-draft-wide", "deployment.chips=1"])[0].scenario
    assert point.draft_model is not None
    changed = {"weight_dtype": dtype}
    return point.target.model_copy(update=changed), point.draft_model.model_copy(update=changed)


def saved(spec: ModelSpec, seed: int, folder: Path) -> Path:
    """Random weights with a head of zeros, as a folder that both engines read."""
    from flax import nnx

    model = Decoder(spec, rngs=nnx.Rngs(params=seed))
    model.head[...] = jnp.zeros_like(model.head[...])
    save(model, folder, positions=PROMPT + OUTPUT + 64)
    return folder


Builders = dict[str, Callable[[], Run]]


def ours(target: ModelSpec, draft: ModelSpec, folders: tuple[Path, Path], lookahead: int) -> Builders:
    """Programs of our loop and of its parts."""
    mesh = chip_mesh(1, 1)
    pair = Pair(load(target, folders[0], mesh, 1), load(draft, folders[1], mesh, 1), mesh)
    bench = programs.Bench(pair, 1, PROMPT, OUTPUT, lookahead, Sampling(temperature=0.0))
    kept = ForcedAcceptance(kind="forced", accepted=(lookahead,))
    found: dict[str, Callable[[], programs.Program]] = {
        "round": lambda: programs.rounds(bench, kept),
        "plain": lambda: programs.plain_steps(bench),
        "draft": lambda: programs.draft_steps(bench),
        "first": lambda: programs.verify_and_draft_first_steps(bench),
        "verify": lambda: programs.verify_steps(bench),
        "sampling": lambda: programs.verdicts(bench),
    }
    return {f"ours {name}": (lambda build=build: build().run) for name, build in found.items()}


def theirs(folders: tuple[Path, Path], dtype: str, lookahead: int) -> Builders:
    """Assisted generation and its parts."""
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    wanted = getattr(torch, dtype)
    target, draft = (AutoModelForCausalLM.from_pretrained(str(f), dtype=wanted).eval() for f in folders)
    draft.generation_config.num_assistant_tokens = lookahead
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    prompt = torch.arange(PROMPT)[None] % 1000 + 1

    def generate(units: int, assistant: Any) -> float:
        count = units * ((lookahead + 1) if assistant is not None else 1)
        count = min(count, OUTPUT)
        started = time.perf_counter()
        with torch.inference_mode():
            target.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                assistant_model=assistant,
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        rounds = count / ((lookahead + 1) if assistant is not None else 1)
        return (time.perf_counter() - started) / rounds

    def forward(model: Any, tokens: int) -> Run:
        cache = DynamicCache(config=model.config)
        fed = torch.ones((1, tokens), dtype=torch.long)
        with torch.inference_mode():
            model(prompt, past_key_values=cache)

        def run(repetitions: int) -> float:
            started = time.perf_counter()
            with torch.inference_mode():
                for _ in range(repetitions):
                    model(fed, past_key_values=cache)
                    cache.crop(-tokens)
            return (time.perf_counter() - started) / repetitions

        return run

    return {
        "theirs round": lambda: lambda units: generate(units, draft),
        "theirs plain": lambda: lambda units: generate(units, None),
        "theirs draft": lambda: forward(draft, 1),
        "theirs verify": lambda: forward(target, lookahead + 1),
    }


def told(session: Session, lookahead: int) -> None:
    """Rounds, their parts and overheads, and tokens a second."""
    ms = {name: session.timing(name) for name in session.windows}
    for name, timing in sorted(ms.items()):
        print(f"  {name:15s} {timing.median * 1e3:8.3f} ms  [{timing.low * 1e3:.3f}, {timing.high * 1e3:.3f}]")
    first = session.beyond("ours first", "ours verify").median
    drafted = first + (lookahead - 1) * ms["ours draft"].median
    parts = {
        "ours": drafted + ms["ours verify"].median + ms["ours sampling"].median,
        "theirs": lookahead * ms["theirs draft"].median + ms["theirs verify"].median,
    }
    for who, summed in parts.items():
        whole, plain = ms[f"{who} round"].median, ms[f"{who} plain"].median
        print(
            f"  {who}: round {whole * 1e3:.3f} ms, parts {summed * 1e3:.3f}, beyond {(whole - summed) * 1e3:+.3f} ms "
            f"({whole / summed - 1:+.1%}); {(lookahead + 1) / whole:.1f} tokens/s, plain {1 / plain:.1f}"
        )
    print(f"  noise floor {session.noise_floor:.1%}, foreign load {session.foreign_load:.1%}")


def main() -> None:
    """Run both engines for every type asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lookahead", type=int, default=4)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--budget", type=float, default=90.0, help="seconds of timing for each type")
    asked = parser.parse_args()
    for dtype in asked.dtype:
        with tempfile.TemporaryDirectory() as home:
            target, draft = specs(dtype)
            folders = (saved(target, 0, Path(home) / "target"), saved(draft, 1, Path(home) / "draft"))
            builders = ours(target, draft, folders, asked.lookahead) | theirs(folders, dtype, asked.lookahead)
            runs = build_all(builders, lambda _: None)
            pairs = {"ours first": "ours verify"}
            session = interleaved(runs, beyond=pairs, visits=7, window_s=0.6, budget_s=asked.budget)
        print(f"{dtype}, K = {asked.lookahead}, {jax.devices()[0].device_kind}")
        told(session, asked.lookahead)


if __name__ == "__main__":
    main()
