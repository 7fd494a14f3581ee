"""How simulator/prior/fitted.json was fitted, and what the prior is worth on families that were not in its fit.

    python docs/prior/fit.py            # prints the numbers
    python docs/prior/fit.py --write    # writes fitted.json and record.json
    python docs/prior/fit.py --check    # fails where what is written is not what comes out

Rows: shapes.csv and pairs.csv, each with its source. Which pairs are used was settled before any fit: verification
without loss; a dense transformer of its own as draft; both sizes published; acceptance stated, or tokens of a round at
a stated lookahead; no drafting that stops where the draft is unsure; 1,000 tokens or more; greedy or plain sampling; no
number from memory. What fails a rule stays in the table and names the rule. Of several recipes of training one draft
for one pair the plain one is used (distillation to its optimum), of several lookaheads the smallest.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from simulator.files import settle, to_json
from simulator.prior import fitted
from simulator.prior.acceptance import AcceptancePrior, pinsker
from simulator.prior.curve import Curve, Pairs, fit_curve
from simulator.prior.laws import LAWS, Law
from simulator.prior.shape import Shape, Trained, fit_shape
from simulator.prior.sizes import Sizes
from simulator.spec.publication import rate_of

HERE = Path(__file__).resolve().parent
Array = npt.NDArray[np.float64]
DIGITS = 6
UNSTATED_TEMPERATURE = 0.5
"""Between greedy and sampling, where the source does not say."""
UNKNOWN = fitted.HeldOut(0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0.0, 0.0, 0.0)
SAME_TOKENS = 1e12
"""Where tokens are not published both models are taken as trained on equally many: which number cancels."""


def read(name: str) -> list[dict[str, str]]:
    """The rows of a table."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def studies() -> dict[str, list[Trained]]:
    """Trained models by study."""
    found: dict[str, list[Trained]] = {}
    for row in read("shapes.csv"):
        tokens = float(row["tokens"]) if row["tokens"] else None
        # Gemstones: checkpoints of nearly equal tokens are one block. Gadre: 20 tokens a parameter, one block.
        block = f"{tokens:.1g}" if tokens and row["study"].startswith("gemstones") else row["block"]
        found.setdefault(row["study"], []).append(
            Trained(block, float(row["parameters"]), int(row["layers"]), int(row["width"]), tokens, float(row["loss"]))
        )
    return found


def acceptance(row: dict[str, str]) -> float:
    """The acceptance rate of a row; one of K = 1 is the accepted share, else the constant rate of the tokens."""
    value = float(row["value"])
    return rate_of(value, int(row["lookahead"])) if row["reported"] == "tokens per round" else value


def sizes(row: dict[str, str], model: str) -> Sizes:
    """Of ordinary shape: that of many targets is not published."""
    return Sizes.of(np.array([float(row[f"{model}_parameters"])]), SAME_TOKENS)


def pairs_of(rows: list[dict[str, str]], law: Law, shape: Shape) -> Pairs:
    """The pairs with their gaps by this law."""
    prior = AcceptancePrior(law, shape, Curve(np.zeros(7), np.zeros((7, 7)), 0.0, 1.0), UNKNOWN)
    return Pairs(
        np.array([float(prior.loss_gap(sizes(r, "target"), sizes(r, "draft"))[0]) for r in rows]),
        np.array([acceptance(r) for r in rows]),
        np.array([temperature(r) for r in rows]),
        *(tuple(r[key] for r in rows) for key in ("domain", "family", "task")),
    )


def temperature(row: dict[str, str]) -> float:
    """The temperature of a row."""
    return float(row["temperature"] or UNSTATED_TEMPERATURE)


def predict(rows: list[dict[str, str]], prior: AcceptancePrior) -> Array:
    """Mean, low and high of every row, [3, rows], as the planner would get them."""
    found = []
    for row in rows:
        one = prior.summary(sizes(row, "target"), sizes(row, "draft"), row["domain"], temperature(row))
        found.append([one.mean[0], one.low[0], one.high[0]])
    return np.array(found).T


def held_out(rows: list[dict[str, str]], law: Law, shape: Shape) -> tuple[Array, Pairs]:
    """Every pair predicted by a curve that was fitted without its family."""
    pairs, found = pairs_of(rows, law, shape), np.zeros((3, len(rows)))
    for family in dict.fromkeys(pairs.family):
        own = np.array([name == family for name in pairs.family])
        prior = AcceptancePrior(law, shape, fit_curve(pairs.where((~own).tolist())), UNKNOWN)
        chosen = [row for row, mine in zip(rows, own, strict=True) if mine]
        found[:, own] = predict(chosen, prior)
    return found, pairs


def groups_of(rows: list[dict[str, str]]) -> list[list[int]]:
    """Drafts that one target was tried with on one task, at one temperature."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row["target"], row["task"], row["temperature"]), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def judged(
    rows: list[dict[str, str]], found: Array, pairs: Pairs, one: tuple[int, float, float, float]
) -> fitted.HeldOut:
    """The three bounds. The best constant is the median of all pairs, which no prediction could have known."""
    mean, low, high = found
    groups = groups_of(rows)
    ranks = [float(spearmanr(mean[group], pairs.acceptance[group])[0]) for group in groups]
    return fitted.HeldOut(
        len(rows),
        len(set(pairs.family)),
        float(np.abs(mean - pairs.acceptance).mean()),
        float(np.abs(np.median(pairs.acceptance) - pairs.acceptance).mean()),
        float(np.mean((low <= pairs.acceptance) & (pairs.acceptance <= high))),
        float(np.mean(ranks)),
        len(groups),
        len({pairs.family[group[0]] for group in groups}),
        *one,
    )


def one_point(rows: list[dict[str, str]], law: Law, shape: Shape) -> tuple[int, float, float, float]:
    """Errors where the smallest draft of a group was measured, and the others are predicted from it.

    Beside them those of saying that all drafts are accepted as the measured one is. The curve is fitted without the
    family, and given that one point.
    """
    pairs = pairs_of(rows, law, shape)
    errors, constant, inside = [], [], []
    for group in groups_of(rows):
        curve = fit_curve(pairs.where([name != pairs.family[group[0]] for name in pairs.family]))
        first, *others = sorted(group, key=lambda index: -pairs.gap[index])
        at = pairs.domain[first], temperature(rows[first])
        known = curve.given(pairs.gap[[first]], pairs.acceptance[[first]], *at)
        prior = AcceptancePrior(law, shape, known, UNKNOWN)
        found = predict([rows[i] for i in others], prior)
        truth = pairs.acceptance[others]
        errors += np.abs(found[0] - truth).tolist()
        constant += np.abs(pairs.acceptance[first] - truth).tolist()
        inside += ((found[1] <= truth) & (truth <= found[2])).tolist()
    return len(errors), float(np.mean(errors)), float(np.mean(constant)), float(np.mean(inside))


def outcome() -> tuple[dict[str, Any], dict[str, Any]]:
    """What fitted.json and record.json hold."""
    shape, strengths = fit_shape(studies())
    rows = [row for row in read("pairs.csv") if row["use"] == "yes"]
    curves, record = {}, {}
    for law in LAWS.values():
        found, pairs = held_out(rows, law, shape)
        worth, curve = judged(rows, found, pairs, one_point(rows, law, shape)), fit_curve(pairs)
        curves[law.name] = {
            "state": curve.state.tolist(),
            "covariance": curve.covariance.tolist(),
            "rest": curve.rest,
            "freedom": curve.freedom,
            "held_out": asdict(worth),
        }
        sampled = pairs.temperature == 1.0
        record[law.name] = {
            "held_out": asdict(worth),
            "slope": [float(curve.state[1]), float(curve.covariance[1, 1]) ** 0.5],
            "spread": {"family": curve.of_family, "task": curve.of_task, "draft": curve.rest},
            "below_pinsker": [int(np.sum((pairs.acceptance < pinsker(pairs.gap))[sampled])), int(sampled.sum())],
            "pairs": [
                {
                    "family": row["family"],
                    "draft": row["draft"],
                    "task": row["task"],
                    "temperature": row["temperature"],
                    "gap": float(pairs.gap[index]),
                    "acceptance": float(pairs.acceptance[index]),
                    "predicted": found[:, index].tolist(),
                }
                for index, row in enumerate(rows)
            ],
        }
    shapes = {**asdict(shape), "strengths": strengths}
    return rounded({"shape": shapes, "curves": curves}), rounded({"shape": shapes, "laws": record})


def rounded(data: Any) -> Any:
    """Numbers to six digits: what is beyond them is the search's, not the data's."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list):
        return [rounded(value) for value in data]
    return float(f"{data:.{DIGITS}g}") if isinstance(data, float) else data


def show(record: dict[str, Any]) -> None:
    """The figures on one screen."""
    print("shape:", record["shape"])
    for law, own in record["laws"].items():
        print(f"\n{law}: {own['held_out']}")
        print(f"  p and its error: {own['slope']}; standard deviations of z: {own['spread']}")
        print(f"  sampled pairs below Pinsker's bound of the law's gap: {own['below_pinsker']}")
    for one in next(iter(record["laws"].values()))["pairs"]:
        mean, low, high = one["predicted"]
        where = f"{one['family']} {one['draft']} {one['task']} T={one['temperature']}"
        print(f"  {where:60} gap {one['gap']:.3f} is {one['acceptance']:.3f} said {mean:.3f} {low:.3f}-{high:.3f}")


if __name__ == "__main__":
    numbers, record = outcome()
    texts = {fitted.FILE: to_json(numbers) + "\n", HERE / "record.json": to_json(record) + "\n"}
    show(record)
    if stale := settle(texts, sys.argv):
        sys.exit(f"not as fitted: {', '.join(map(str, stale))}")
