"""Acceptance by lookahead as a YAML table, and rounds of a block drafter one by one."""

from __future__ import annotations

import re
import statistics
from typing import Any, NoReturn

from simulator.errors import ConfigError
from simulator.importing.measurements.definitions import put_length, put_ratio
from simulator.importing.measurements.fields import Fields
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.source import Source
from simulator.spec.document import Document, PathKey, dotted

_SAID = re.compile(r"^#\s*((?:Measured on|dataset:|speculative-config:).*)$", re.MULTILINE)


def read_golden(source: Source) -> Outcome:
    """Model -> mode -> number of speculative tokens -> acceptance length."""
    document = source.yaml()
    outcome = Outcome(notes=[match[1][:200] for match in _SAID.finditer(source.text)])
    for path, lengths in _tables(document):
        for ahead, value in lengths.items():
            here = (*path, ahead)
            if not isinstance(ahead, int) or not 1 <= ahead <= 64:
                _refuse(document, here, "a number of speculative tokens from 1 to 64 as key")
            elif not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value <= ahead + 1:
                _refuse(document, here, f"an acceptance length from 1 to {ahead + 1}, which is K+1")
            outcome.findings.append(_golden(document, here, float(value)))
    return outcome


def _tables(document: Document) -> list[tuple[PathKey, dict[int | str, Any]]]:
    if not isinstance(document.data, dict) or not document.data:
        _refuse(document, (), "a mapping of models to modes to acceptance lengths by K")
    found: list[tuple[PathKey, dict[int | str, Any]]] = []
    for model, modes in document.data.items():
        if not isinstance(modes, dict) or not modes:
            _refuse(document, (model,), "a mapping of modes, such as thinking_on")
        for mode, lengths in modes.items():
            if not isinstance(lengths, dict) or not lengths:
                _refuse(document, (model, mode), "a mapping of K to acceptance length")
            found.append(((model, mode), lengths))
    return found


def _refuse(document: Document, path: PathKey, accepts: str) -> NoReturn:
    raise ConfigError((document.place(path).problem(dotted(path), accepts),))


def _golden(document: Document, path: PathKey, value: float) -> Finding:
    model, mode, ahead = path
    place = document.place(path)
    finding = Finding(f"{model}, {mode}, K {ahead}", place, model=str(model))
    finding.state("decoding.lookahead", float(ahead), "key", place)
    finding.put("acceptance_length", value)
    finding.converted.append(
        "acceptance lengths read as with the bonus token (vLLM's definition: 1 + accepted / drafts; none is above K+1)"
    )
    return finding


def read_rounds(source: Source) -> Outcome:
    """Rounds with the accepted draft tokens and the times of draft, verification and a plain step."""
    top = source.json()
    by_lookahead: dict[int, list[tuple[int, float, float, float | None]]] = {}
    prompts = top.part("prompts")
    if prompts is None or not prompts.data:
        top.refuse("prompts", "a mapping of kinds of prompts to lists of rounds")
    by_kind: dict[str, list[int]] = {}
    for kind in prompts.data if prompts is not None else ():
        for one in prompts.items(str(kind)) if prompts is not None else ():
            found = _round(one)
            if found is not None:
                by_lookahead.setdefault(found[0], []).append(found[1:])
                by_kind.setdefault(str(kind), []).append(found[1])
    top.check()
    outcome = Outcome([_rounds(top, ahead, rounds) for ahead, rounds in by_lookahead.items()])
    kinds = ", ".join(f"{kind} {1 + statistics.fmean(kept):.3g}" for kind, kept in by_kind.items())
    outcome.notes.append(f"acceptance length by kind of prompt: {kinds}")
    return outcome


def _round(one: Fields) -> tuple[int, int, float, float, float | None] | None:
    ahead = one.whole("k", 1, 64, need=True)
    kept = one.whole("accept", 0, 64, need=True)
    draft, verify = one.seconds("draft_ms", 1e-3, need=True), one.seconds("verify_ms", 1e-3, need=True)
    plain = one.seconds("plain_ms", 1e-3)
    if ahead is None or kept is None or draft is None or verify is None:
        return None
    if kept > ahead:
        one.refuse("accept", f"at most k, {ahead}")
        return None
    return ahead, kept, draft, verify, plain


def _rounds(top: Fields, ahead: int, rounds: list[tuple[int, float, float, float | None]]) -> Finding:
    kept, draft, verify = (statistics.fmean(one[index] or 0.0 for one in rounds) for index in range(3))
    plain = [one[3] for one in rounds if one[3] is not None]
    finding = Finding(f"K {ahead}, {len(rounds)} rounds", top.place("prompts"))
    finding.state("decoding.lookahead", ahead, "k", top.place("prompts"))
    finding.state("workload.batch", 1, "rounds of one sequence", top.place("prompts"))
    finding.read = {"rounds": len(rounds), "accept": kept, "draft_s": draft, "verify_s": verify}
    put_length(finding, 1 + kept, "1 + mean of accept, which leaves the bonus token out", "1 + mean of accept")
    put_ratio(finding, kept, ahead, "accept / k")
    finding.put("verify_step_s", verify, "mean of verify_ms")
    finding.put("round_s", draft + verify, "draft_ms + verify_ms; what else a round takes is not in the file")
    finding.put("tpot_s", (draft + verify) / (1 + kept), "round / acceptance length")
    finding.left_out.append(
        f"draft_ms, {draft * 1e3:.4g} ms: a whole block at once, neither first draft step nor draft step"
    )
    if plain:
        finding.put("plain_step_s", statistics.fmean(plain), "mean of plain_ms")
        finding.put("speedup", statistics.fmean(plain) * (1 + kept) / (draft + verify), "plain step x length / round")
    return finding
