"""The committed designs: what is tested was not fitted to, and there is enough of it; mistakes are located."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from runtime import probes
from runtime.probes import measure_design, processes
from simulator.errors import ConfigError, MeasurementError
from simulator.spec.design import DESIGNS, Design, load_design
from simulator.spec.probe import ProbePoint, ProbeRecord
from tests import planted


def models(design: Design, role: str) -> list[tuple[ProbePoint, str]]:
    """Points of one role with the names of their models."""
    return [(p, m.name) for p in design.points() if p.role == role for m in (p.model, p.partner) if m is not None]


@pytest.mark.parametrize("name", ["device", "device_quick", "accelerator"])
def test_no_shape_is_both_fitted_to_and_tested(name: str) -> None:
    design = load_design(DESIGNS / f"{name}.yaml")
    assert not {n for _, n in models(design, "fit")} & {n for _, n in models(design, "test")}


def test_the_full_design_is_large_enough() -> None:
    design = load_design(DESIGNS / "device.yaml")
    tested = [point for point in design.points() if point.role == "test"]
    assert len(tested) >= 100
    seen = [m for p in design.points() if p.role == "fit" for m in (p.model, p.partner) if m is not None]
    widths, depths = {m.d_model for m in seen}, {m.layers for m in seen}
    larger = [p.partner or p.model for p in tested]
    unseen = [m for m in larger if m is not None and m.d_model not in widths and m.layers not in depths]
    assert len(unseen) >= len(tested) / 3
    assert {point.chips for point in tested} == {1, 2, 4}
    drafts = Counter((p.partner.name if p.partner else "", p.tokens, p.chips) for p in tested if p.kind == "generation")
    assert sum(count * (count - 1) // 2 for count in drafts.values()) >= 30


def test_a_point_is_itself_in_any_role() -> None:
    point = load_design(DESIGNS / "probe.yaml").points()[0]
    assert point.key == point.model_copy(update={"role": "test"}).key
    assert point.key != point.model_copy(update={"batch": 2}).key


def test_generations_stand_beside_a_plain_step_of_their_target() -> None:
    for process in processes(load_design(DESIGNS / "device.yaml")):
        assert {point.chips for point in process.points} == {process.devices}
        plain = {p.model.name for p in process.points if p.kind == "decode_step" and p.model is not None}
        assert {p.partner.name for p in process.points if p.kind == "generation" and p.partner is not None} <= plain
        assert sum(point.role == "control" for point in process.points) == 3


def test_an_interrupted_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = load_design(DESIGNS / "device_quick.yaml")
    planned = processes(design)
    timed: list[str] = []

    def time(process: probes.Process, _words: str, _report: object) -> list[ProbeRecord]:
        if len(timed) == 1:
            raise MeasurementError("killed")
        timed.append(process.name)
        return [planted.record(point, 1e-3, process.name) for point in process.points]

    monkeypatch.setattr(probes, "_timed_in_child", time)
    with pytest.raises(MeasurementError, match="killed"):
        measure_design(design, tmp_path, lambda _: None)
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / planned[1].file_name).write_text('[{"half"', encoding="utf-8")
    timed[:] = ["again"] * 2
    records = measure_design(design, tmp_path, lambda _: None)
    assert timed[2:] == [process.name for process in planned[1:]]
    assert len(records) == sum(len(process.points) for process in planned)


def test_another_design_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_timed_in_child", lambda process, *_: [planted.record(process.points[0], 1e-3)])
    design = load_design(DESIGNS / "device_quick.yaml")
    measure_design(design, tmp_path, lambda _: None, [4])
    longer = design.model_copy(update={"positions": 512})
    assert {p.file_name for p in processes(design)}.isdisjoint(p.file_name for p in processes(longer))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  - {kind: forward, shapes: [2x300], tokens: [1]}", "fit[0].shapes[0]"),
        ("  - {kind: forwards, shapes: [2x256x704]}", "fit[0].kind"),
        ("  - {kind: forward, shapes: [2x256x704], tokens: [0]}", "fit[0].tokens[0]"),
        ("  - {kind: all_reduce, payload: [1 parsec]}", "fit[0].payload[0]"),
        ("  - {kind: forward, shapes: [2x255x704 h3]}", "models"),
    ],
)
def test_mistakes_are_located(tmp_path: Path, line: str, words: str) -> None:
    head = (DESIGNS / "probe.yaml").read_text(encoding="utf-8").partition("fit:\n")[0]
    file = tmp_path / "design.yaml"
    file.write_text(f"{head}fit:\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_design(file)
    told = str(caught.value)
    assert words in told
    assert f"{file}:" in told


def test_records_survive_json() -> None:
    point = load_design(DESIGNS / "probe.yaml").points()[0]
    record = planted.record(point, 1e-3, "r1", 2.5)
    assert ProbeRecord.model_validate_json(json.dumps(record.to_json())) == record
