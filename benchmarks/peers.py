"""The quickstart pair under our loop on the device and under Hugging Face assisted generation, in one run.

    pip install torch transformers        # beside this project with its [runtime] extra
    python benchmarks/peers.py [--lookahead 4] [--dtype float32 bfloat16]

Both engines run the same random weights, one sequence, greedy, with every drafted token kept: the head is zero, so that
target and draft always choose the first token, and all work is done. Times are those of one round at full acceptance;
what a round takes beyond its parts, K draft steps and one verification of K+1 tokens, is the overhead. The parts are
timed in their place, ours by differences of loops of rounds, theirs by a clock around each forward pass of a
generation, and alone, in loops of their own that find the weights in the caches more often than a round does. Our loop
is timed with models that do next to no work as well: what such a round takes bounds what the loop itself does.
Programs of both are visited in turn, windows with foreign load are dropped, medians are given with their 5 % and 95 %.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from runtime import in_place, programs
from runtime.loading import load, save
from runtime.mesh import chip_mesh
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.timing import Run, Session, build_all, interleaved
from runtime.transformer import Decoder, share_out
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
    model = Decoder(spec, rngs=nnx.Rngs(params=seed))
    model.head[...] = jnp.zeros_like(model.head[...])
    save(model, folder, positions=PROMPT + OUTPUT + 64)
    return folder


NO_WORK = {"layers": 1, "d_model": 16, "heads": 1, "kv_heads": 1, "head_dim": 16, "d_ff": 16, "vocabulary": 64}

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
    for part in in_place.parts(lookahead).values():
        for rounds in (part.more, part.less):
            found.setdefault(rounds, lambda rounds=rounds: in_place.loop_of(bench, kept, rounds))
    return {f"ours {name}": (lambda build=build: build().run) for name, build in found.items()}


def theirs(folders: tuple[Path, Path], dtype: str, lookahead: int, outside: list[float]) -> Builders:
    """Assisted generation and its parts; seconds of a round outside both models' forward passes go to ``outside``."""
    import torch
    from transformers import AutoModelForCausalLM

    wanted = getattr(torch, dtype)
    target, draft = (AutoModelForCausalLM.from_pretrained(str(f), dtype=wanted).eval() for f in folders)
    draft.generation_config.num_assistant_tokens = lookahead
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    prompt, forwards = _prompt(), [0.0]

    def clocked(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **words: Any) -> Any:
            started = time.perf_counter()
            found = forward(*args, **words)
            forwards[0] += time.perf_counter() - started
            return found

        return functools.wraps(forward)(run)

    def generate(units: int, assistant: Any) -> float:
        forwards[0] = 0.0
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
        seconds = time.perf_counter() - started
        if assistant is not None:
            outside.append((seconds - forwards[0]) / rounds)
        return seconds / rounds

    for model in (target, draft):
        model.forward = clocked(model.forward)

    return {
        "theirs round": lambda: lambda units: generate(units, draft),
        "theirs plain": lambda: lambda units: generate(units, None),
        "theirs draft": lambda: _forward(draft, 1),
        "theirs verify": lambda: _forward(target, lookahead + 1),
    }


def _forward(model: Any, tokens: int) -> Run:
    """Forward passes of one of their models over ``tokens``, behind the prompt, in a loop of their own."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    fed = torch.ones((1, tokens), dtype=torch.long)
    with torch.inference_mode():
        model(_prompt(), past_key_values=cache)

    def run(repetitions: int) -> float:
        started = time.perf_counter()
        with torch.inference_mode():
            for _ in range(repetitions):
                model(fed, past_key_values=cache)
                cache.crop(-tokens)
        return (time.perf_counter() - started) / repetitions

    return run


def _prompt() -> Any:
    import torch

    return torch.arange(PROMPT)[None] % 1000 + 1


def without_work(lookahead: int) -> Builders:
    """Our loop with two models of one layer of 16."""
    spec, mesh = specs("float32")[1].model_copy(update=NO_WORK), chip_mesh(1, 1)

    def build() -> Run:
        pair = Pair(
            share_out(Decoder(spec, rngs=nnx.Rngs(params=0)), 1, ()),
            share_out(Decoder(spec, rngs=nnx.Rngs(params=1)), 1, ()),
            mesh,
        )
        bench = programs.Bench(pair, 1, PROMPT, OUTPUT, lookahead, Sampling(temperature=0.0))
        return programs.rounds(bench, ForcedAcceptance(kind="forced", accepted=(lookahead,))).run

    return {"ours, no work": build}


def told(session: Session, lookahead: int, outside: list[float]) -> None:
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
    inside = {
        part: session.beyond(f"ours {wanted.more}", f"ours {wanted.less}").median / wanted.times
        for part, wanted in in_place.parts(lookahead).items()
    }
    summed = inside["draft_first_step"] + (lookahead - 1) * inside.get("draft_step", 0.0)
    summed += inside["verify_step"] + inside["sampling"]
    beyond, python = ms["ours whole"].median - summed, statistics.median(outside)
    print(
        f"  parts in their place: ours {summed * 1e3:.3f} ms, beyond {beyond * 1e3:+.3f} ms ({beyond / summed:+.1%}); "
        f"theirs {python * 1e3:.3f} ms outside the models ({python / (ms['theirs round'].median - python):+.1%})"
    )
    print(f"  noise floor {session.noise_floor:.1%}, foreign load {session.foreign_load:.1%}")


def main() -> None:
    """Run both engines for every type asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lookahead", type=int, default=4)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--budget", type=float, default=150.0, help="seconds of timing for each type")
    asked = parser.parse_args()
    for dtype in asked.dtype:
        with tempfile.TemporaryDirectory() as home:
            target, draft = specs(dtype)
            folders = (saved(target, 0, Path(home) / "target"), saved(draft, 1, Path(home) / "draft"))
            outside: list[float] = []
            builders = ours(target, draft, folders, asked.lookahead)
            builders |= without_work(asked.lookahead)
            builders |= theirs(folders, dtype, asked.lookahead, outside)
            runs = build_all(builders, lambda _: None)
            pairs = {"ours first": "ours verify"}
            pairs |= {f"ours {p.more}": f"ours {p.less}" for p in in_place.parts(asked.lookahead).values()}
            session = interleaved(
                runs, beyond=pairs, visits=9, window_s=0.6, budget_s=asked.budget, warmed_up=outside.clear
            )
        print(f"{dtype}, K = {asked.lookahead}, {jax.devices()[0].device_kind}")
        told(session, asked.lookahead, outside)


if __name__ == "__main__":
    main()
