"""Files that hold no measurement of ours: what they are, and the part that can be used."""

from __future__ import annotations

from typing import Any, NoReturn

from simulator.errors import ConfigError
from simulator.importing.measurements.found import Outcome
from simulator.importing.measurements.source import Source
from simulator.spec.document import Document, dotted
from simulator.spec.hardware import Peaks

_RATES = {"bfloat16_tc_flops": "bfloat16", "int8_tc_flops": "int8", "fp8_tc_flops": "fp8", "fp4_tc_flops": "fp4"}
_CORRECTIONS = (
    ("gpu", "mem_bw_empirical_scaling_factor"),
    ("gpu", "mem_empirical_constant_latency"),
    ("node", "p2p_latency"),
    ("misc", "other_mem"),
)
_LINKS = (("node", "intra_node_bw"), ("node", "inter_node_bw"), ("node", "inter_rack_bw"), ("node", "pcie_bw"))


def read_aiconfigurator(source: Source) -> Outcome:
    """A system file of aiconfigurator: datasheet figures, as the `peaks` of a hardware profile."""
    document = source.yaml()
    said = f"system file {source.file.replace(chr(92), '/').rpartition('/')[2][:80]} of aiconfigurator"
    gpu = _part(document, "gpu")
    problems = []
    values: dict[tuple[str, ...], float] = {}
    for key in ("mem_bw", "mem_capacity", *(rate for rate in _RATES if rate in gpu)):
        value = gpu.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 1e21:
            values["gpu", key] = float(value)
        else:
            accepts = "a number from 1 to 1e21" if key in gpu else f"the key '{key}', which is missing"
            problems.append(document.place(("gpu", key)).problem(f"gpu.{key}", accepts, None if key in gpu else ""))
    if not any(rate in gpu for rate in _RATES):
        accepts = f"at least one of {', '.join(_RATES)}"
        problems.append(document.place(("gpu",)).problem("gpu", accepts))
    if problems:
        raise ConfigError(tuple(problems))
    outcome = Outcome(written=_peaks(values, said), what="datasheet figures of a chip; nothing in it was measured")
    for path in (*_CORRECTIONS, *_LINKS):
        found = document.data.get(path[0])
        if isinstance(found, dict) and path[1] in found:
            why = "a correction by its authors, not a measurement" if path in _CORRECTIONS else "links: see `topology`"
            outcome.left_out.append(f"{dotted(path)} {document.place(path).text}: {why}")
    outcome.converted.append("..._tc_flops read as dense matrix-multiply rates in FLOP/s, mem_bw as bytes/s")
    return outcome


def _part(document: Document, name: str) -> dict[str, Any]:
    data = document.data.get(name) if isinstance(document.data, dict) else None
    if not isinstance(data, dict):
        raise ConfigError((document.place((name,)).problem(name, f"a mapping '{name}' with mem_bw and rates"),))
    return data


def _peaks(values: dict[tuple[str, ...], float], said: str) -> str:
    quoted = said.replace("'", "''")
    rates = {name: values["gpu", key] for key, name in _RATES.items() if ("gpu", key) in values}
    rows = {
        "hbm_bandwidth": f"{values['gpu', 'mem_bw'] / 1e9:.10g} GB/s",
        "hbm_capacity": f"{values['gpu', 'mem_capacity']:.0f} B",
    }
    data: dict[str, Any] = {key: {"value": value, "source": said} for key, value in rows.items()}
    matmul = {name: f"{value / 1e12:.10g} TFLOP/s" for name, value in rates.items()}
    data["matmul"] = {name: {"value": value, "source": said} for name, value in matmul.items()}
    Peaks.model_validate(data)
    lines = [
        "# For a hardware profile: figures of a datasheet, as somebody else wrote them down. Check them there.",
        "peaks:",
    ]
    lines += [f"  {key}: {{value: {value}, source: '{quoted}'}}" for key, value in rows.items()]
    lines += ["  matmul:", *(f"    {name}: {{value: {value}, source: '{quoted}'}}" for name, value in matmul.items())]
    return "\n".join(lines) + "\n"


def read_xprof_overview(source: Source) -> Outcome:
    """An overview page of xprof: steps, of which it does not say what they are."""
    line = source.lines[_line_with(source, "steptime_ms_average") - 1]
    mean = line.partition("steptime_ms_average")[2].strip(' ":,')[:20].partition('"')[0]
    _refuse(
        source,
        "steptime_ms_average",
        f"a measurement that says of what; an overview of xprof has steps (here {mean} ms on average)"
        " as the program marked them: a plain step, a round or one of training. Where they are plain steps, write"
        " `measured: {plain_step: ... ms}` in the scenario",
    )


def read_xprof_trace(source: Source) -> Outcome:
    """A trace of operations."""
    _refuse(
        source,
        "traceEvents",
        "a measurement of steps or requests; this is a trace of single operations (Chrome's format, as xprof"
        " writes it), which are no components of a record",
    )


def read_requests(source: Source) -> Outcome:
    """A trace of requests."""
    _refuse(
        source,
        "input_length",
        "a measurement; this is a trace of requests (times of arrival, lengths of prompts and outputs), in which"
        " nothing was timed: it describes a workload",
    )


def _line_with(source: Source, word: str) -> int:
    return next((number for number, line in enumerate(source.lines, 1) if word in line), 1)


def _refuse(source: Source, key: str, accepts: str) -> NoReturn:
    raise source.refusal(_line_with(source, key), key, accepts)
