"""Answers of Spec-Bench, EAGLE and Medusa: for every question and turn the steps, the new tokens and the wall time."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.importing.measurements.definitions import MOST_TOKENS, put_length
from simulator.importing.measurements.fields import LONGEST_S, Fields
from simulator.importing.measurements.found import Finding, Outcome
from simulator.importing.measurements.source import Source


@dataclass
class _Model:
    """Sums over the answers of one model."""

    first: Fields
    steps: int = 0
    tokens: int = 0
    wall_s: float = 0.0
    turns: int = 0
    lengths: int = 0
    """Sum of accept_lengths where all of them are there; -1 where some are not."""
    lengths_count: int = 0
    questions: set[object] = field(default_factory=set)
    empty: list[Fields] = field(default_factory=list)
    """Answers without a new token although they took steps."""


def read_answers(source: Source) -> Outcome:
    """One finding for each model of the file."""
    models: dict[str, _Model] = {}
    records = source.records()
    outcome = Outcome()
    for record in records:
        name = record.word("model_id", need=True)
        if name is not None:
            model = models.setdefault(name, _Model(record))
            _question(record, model)
            for choice in record.items("choices"):
                _choice(choice, model)
    for model in models.values():
        if model.empty and model.tokens:
            model.empty[0].refuse(
                "new_tokens", "more than 0 tokens in every answer, or 0 in all, as EAGLE's baseline has"
            )
    for record in records[:1]:
        record.check()
    outcome.findings = [_finding(name, model) for name, model in models.items()]
    if any(model.lengths < 0 for model in models.values()):
        outcome.left_out.append("accept_lengths: not whole in every answer; the totals of tokens and steps are used")
    return outcome


def _question(record: Fields, model: _Model) -> None:
    number = record.data.get("question_id")
    if isinstance(number, int | str) and number in model.questions:
        record.refuse("question_id", "each question once; this one was answered on an earlier line")
    elif isinstance(number, int | str):
        model.questions.add(number)


def _choice(choice: Fields, model: _Model) -> None:
    # `idxs` are the indices of the last steps, so there was one step more; Spec-Bench counts them.
    key, more = ("decoding_steps", 0) if choice.has("decoding_steps") else ("idxs", 1)
    steps = choice.numbers(key, 1 - more, 1e9, whole=True)
    tokens = choice.numbers("new_tokens", 0, 1e9, whole=True)
    walls = choice.numbers("wall_time", 0, LONGEST_S)
    if steps is None or tokens is None or walls is None:
        return
    if not len(steps) == len(tokens) == len(walls):
        choice.refuse("new_tokens", f"as many values as {key} and wall_time have: one a turn")
        return
    for index, (count, new, wall) in enumerate(zip(steps, tokens, walls, strict=True)):
        if new and (new < count + more or new > MOST_TOKENS * (count + more)):
            choice.refuse(("new_tokens", index), f"1 to 65 tokens for each of {count + more:g} steps")
        if wall <= 0:
            choice.refuse(("wall_time", index), "more than 0 seconds")
        if not new:
            model.empty.append(choice)
    model.steps += int(sum(steps)) + more * len(steps)
    model.tokens += int(sum(tokens))
    model.wall_s += sum(walls)
    model.turns += len(steps)
    _lengths(choice, model)


def _lengths(choice: Fields, model: _Model) -> None:
    values = choice.data.get("accept_lengths")
    if values is None or model.lengths < 0:
        return
    if not isinstance(values, tuple) or any(isinstance(one, str) for one in values):
        model.lengths = -1
        return
    found = choice.numbers("accept_lengths", 0, MOST_TOKENS, whole=True)
    if found is not None:
        model.lengths += int(sum(found))
        model.lengths_count += len(found)


def _finding(name: str, model: _Model) -> Finding:
    finding = Finding(name, model.first.place(), model=name)
    finding.state("workload.batch", 1, "one question at a time", model.first.place())
    finding.read = {"steps": model.steps, "new_tokens": model.tokens, "wall_time": model.wall_s, "turns": model.turns}
    step_s = model.wall_s / model.steps
    if not model.tokens:
        finding.converted.append("new_tokens 0 everywhere, as EAGLE's baseline writes it: read as one token a step")
    if model.tokens in {0, model.steps}:
        finding.state("decoding.lookahead", 0, "one token a step", model.first.place())
        finding.put("plain_step_s", step_s, "wall time / steps, prefill included")
        finding.put("tpot_s", step_s, "wall time / new tokens, prefill included")
        finding.notes.append("plain decoding: every step made one token")
        return finding
    length = model.tokens / model.steps
    put_length(finding, length, "new tokens / steps; each step counts the target's own token", "new tokens / steps")
    if model.lengths > 0:
        finding.converted.append(_told(model))
    finding.put("tpot_s", model.wall_s / model.tokens, "wall time / new tokens, prefill included")
    finding.converted.append(
        "wall time / new tokens read as TPOT: the prefill is in it, so TPOT proper is a little less"
    )
    finding.put("round_s", step_s, "wall time / steps, prefill included (TPOT x acceptance length)")
    finding.notes.append("totals over all questions; means of the questions' own speeds differ by a few percent")
    return finding


def _told(model: _Model) -> str:
    """What accept_lengths count, by what they add up to."""
    mean = model.lengths / max(model.lengths_count, 1)
    if model.lengths == model.tokens:
        return f"accept_lengths add up to new_tokens: they count the bonus token (mean {mean:.3g})"
    if model.lengths + model.lengths_count == model.tokens:
        return f"accept_lengths lack one token a step: they leave the bonus token out (mean {mean:.3g})"
    return f"accept_lengths (mean {mean:.3g}) do not add up to new_tokens, with or without the bonus token: not used"
