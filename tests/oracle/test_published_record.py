"""What the published record must show: how far off, the signs, the topology, and what cannot be true."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simulator.predict import predict_scenario
from simulator.spec.load import load_scenario
from simulator.spec.publication import PUBLISHED, Published, load_all
from simulator.spec.scenario import DraftDeployment, Scenario
from simulator.validation.published import Judged, crossed, judged, orders


@pytest.fixture(scope="module")
def published() -> tuple[Published, ...]:
    return load_all()


@pytest.fixture(scope="module")
def rows(published: tuple[Published, ...]) -> list[Judged]:
    return judged(published)


def of(rows: list[Judged], source: str, use: str = "test") -> list[Judged]:
    return [row for row in rows if row.about.name == source and row.entry.row.use == use and row.counted]


def scenario_of(row: Judged) -> Scenario:
    assert row.entry.scenario is not None
    return row.entry.scenario


def test_there_are_enough_rows_of_enough_sources_and_chips(rows: list[Judged]) -> None:
    modelled = [row for row in rows if row.predicted is not None]
    assert len(modelled) >= 200
    by_source = Counter(row.about.name for row in rows)
    assert max(by_source.values()) <= 0.4 * len(rows)
    chips = {row.hardware for row in modelled}
    assert {"tpu_v4", "a100_sxm", "h100_sxm", "rtx_4090", "apple_m1_ultra"} <= chips
    gains = [row for row in modelled if row.entry.row.metric == "speedup"]
    assert len(gains) >= 40
    assert sum(row.published < 0.97 for row in gains) >= 12


def test_what_was_fitted_is_what_an_engine_or_a_calibration_says(rows: list[Judged]) -> None:
    by_engine = Counter(f"{row.about.name}: {row.entry.row.where}" for row in rows if row.entry.row.use == "fit")
    for row in rows:
        hardware, own = scenario_of(row).deployment.hardware if row.entry.scenario else None, row.entry.row
        if own.use != "fit" or hardware is None or row.calibration in ("chen-2023", "pope-2022"):
            continue
        known = hardware.engines.get(row.engine)
        if known is None:
            assert own.note  # how the shape of a model was chosen
            continue
        told = f"{row.about.name}: {own.where}"
        # Where target and draft alone fix an engine, the acceptance alone was fitted to the speculative rows.
        assert told in known.fitted_on or scenario_of(row).lookahead > 0
        assert by_engine[told]
    assert all(row.entry.row.use == "test" or row.verdict != "missed" for row in rows)


def test_gpt_fast_in_bf16_on_1_to_8_a100(rows: list[Judged]) -> None:
    own = [row for row in of(rows, "gpt_fast_a100") if scenario_of(row).target.weight_dtype == "bfloat16"]
    assert len(own) == 5
    assert np.median([abs(row.error or 0) for row in own]) <= 0.08


def test_eagle_3_between_the_two_lookaheads_that_were_fitted(rows: list[Judged]) -> None:
    own = [
        row
        for row in of(rows, "vllm_eagle_h100")
        if row.entry.row.metric == "tpot_s"
        and (draft := scenario_of(row).draft_model) is not None
        and draft.name.startswith("eagle3")
    ]
    assert sorted(scenario_of(row).lookahead for row in own) == [3, 4, 5, 6]
    assert max(abs(row.error or 0) for row in own) <= 0.04


def test_signs_of_gains_and_losses(rows: list[Judged]) -> None:
    signs, losses, _ = orders(rows)
    assert signs.right >= 0.85 * signs.asked
    assert losses.right >= 10


def test_what_contradicts_physics_is_flagged_by_the_tool(rows: list[Judged]) -> None:
    impossible = [row for row in rows if row.verdict == "contradicts physics"]
    verified = [r for r in impossible if r.about.name == "dflash_tpu_v4_v5p" and r.entry.row.metric == "verify_step_s"]
    assert len(verified) >= 8
    assert all(row.entry.row.not_modelled is None for row in impossible)


def test_sources_of_one_chip_are_tried_on_each_other_both_ways(published: tuple[Published, ...]) -> None:
    names = {
        one.name for one in crossed([p for p in published if p.about.name in ("pope2022", "chen2023_chinchilla_sps")])
    }
    assert names == {
        "pope2022 under chen-2023",
        "chen2023_chinchilla_sps under pope-2022",
        "pope2022 under xla-compiled",
        "chen2023_chinchilla_sps under xla-compiled",
    }


def test_no_source_is_tried_on_a_calibration_that_it_has_anyway_and_none_twice(
    published: tuple[Published, ...],
) -> None:
    names = [one.name for one in crossed(published)]
    assert len(set(names)) == len(names)
    own = {(p.about.name, e.scenario.deployment.calibration) for p in published for e in p.entries if e.scenario}
    assert not {(source, name) for source, name in own if f"{source} under {name}" in names}


class TestTopologyDecides:
    """With what is unknown fitted on one GPU alone."""

    @staticmethod
    def gain(rows: list[Judged], source: str, chips: int, draft: DraftDeployment | None = None) -> float:
        row = next(
            r
            for r in rows
            if r.about.name == source and r.entry.row.metric == "speedup" and scenario_of(r).deployment.chips == chips
        )
        scenario = scenario_of(row)
        if draft is not None:
            deployment = scenario.deployment.model_copy(update={"draft": draft})
            scenario = scenario.model_copy(update={"deployment": deployment})
        found = predict_scenario(scenario).metrics["speedup"]
        assert isinstance(found, float)
        return found

    def test_opt_30b_gains_on_one_gpu_and_loses_on_four_wherever_the_draft_lies(self, rows: list[Judged]) -> None:
        kept = DraftDeployment(placement="sub_slice", tensor_parallel=1)
        sharded, on_one = (self.gain(rows, "vllm_opt30b_a100", 4, draft) for draft in (None, kept))
        assert self.gain(rows, "vllm_opt30b_a100", 1) > 1.1
        assert sharded < on_one < 1

    def test_what_all_reduces_do_not_explain_is_told(self, rows: list[Judged]) -> None:
        alone = [r for r in of(rows, "vllm_opt30b_a100") if scenario_of(r).target.name == "opt-125m"]
        assert len(alone) == 2
        assert all("more than is explained" in row.reason for row in alone)

    def test_qwq_32b_gains_on_one_gpu_and_hardly_on_four(self, rows: list[Judged]) -> None:
        assert self.gain(rows, "sglang_qwq32b", 1) > 1.3
        assert self.gain(rows, "sglang_qwq32b", 4) < 1.1


def best(name: str) -> dict[int, tuple[int, float]]:
    """By batch the best lookahead and its speedup."""
    found: dict[int, tuple[int, float]] = {}
    for point in load_scenario(PUBLISHED / "sweeps" / f"{name}.yaml"):
        gain = predict_scenario(point.scenario).metrics["speedup"]
        assert isinstance(gain, float)
        batch = point.scenario.workload.batch
        if gain > found.get(batch, (0, 0.0))[1]:
            found[batch] = (point.scenario.lookahead, gain)
    return found


def test_at_a_short_context_the_best_lookahead_falls_with_the_batch() -> None:
    found = best("lookahead_over_batch")
    assert found[256][0] < found[64][0] <= found[8][0]
    assert found[256][1] < found[128][1] < found[32][1]


def test_at_a_long_context_a_large_batch_gains_again() -> None:
    short, long = best("lookahead_over_batch"), best("long_context")
    assert long[32][1] > long[8][1] > long[1][1]
    assert long[32][1] > short[32][1]
    assert long[32][0] >= short[32][0]
