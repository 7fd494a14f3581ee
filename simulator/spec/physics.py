"""Mistakes that no single key shows: heads against chips, vocabularies against each other, names against a profile."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.errors import Problem
from simulator.spec.acceptance import ForcedAcceptance
from simulator.spec.axes import path_problem
from simulator.spec.document import Document, PathKey, dotted
from simulator.spec.hardware import HardwareProfile, TorusTopology, parse_slice, slice_chips
from simulator.spec.problems import nearest
from simulator.spec.scenario import Scenario

Found = Iterator[tuple[PathKey, str]]


def physics_problems(scenario: Scenario, document: Document) -> list[Problem]:
    """Everything in ``scenario`` that is well formed and cannot be."""
    problems: list[Problem] = []
    for check in (_chips, _degrees, _calibration, _rates, _draft, _acceptance, _published):
        for path, accepts in check(scenario):
            place = document.place(path)
            # Where a part is a mapping, or follows from a default, there are no words to quote.
            words = place.text if path in document.places and place.text != "a mapping" else ""
            problems.append(place.problem(dotted(path), accepts, words))
    return problems


def _chips(scenario: Scenario) -> Found:
    deployment, topology = scenario.deployment, scenario.deployment.hardware.topology
    path: PathKey = ("deployment", "slice")
    if deployment.slice is None:
        return
    if not isinstance(topology, TorusTopology):
        yield path, f"no slice; {deployment.hardware.name} is not connected as a torus"
        return
    if len(parse_slice(deployment.slice)) != topology.axes:
        yield path, f"{topology.axes} axes, such as {'x'.join(['2'] * topology.axes)}"
    if slice_chips(deployment.slice) != deployment.chips:
        yield path, f"axes whose product is chips; here {slice_chips(deployment.slice)} and {deployment.chips}"


def _degrees(scenario: Scenario) -> Found:
    deployment, chips = scenario.deployment, scenario.deployment.chips
    shared: PathKey = ("deployment", "tensor_parallel" if deployment.tensor_parallel else "chips")
    own: PathKey = ("deployment", "draft", "tensor_parallel") if deployment.draft.tensor_parallel else shared
    for path, degree in {shared: deployment.target_degree, own: deployment.draft_degree}.items():
        if chips % degree:
            yield path, f"a divisor of chips, which is {chips}"
    if deployment.target_degree < chips and chips % deployment.target_degree == 0:
        yield shared, f"chips, which is {chips}: data parallelism is not modelled, and the other chips would idle"
    if deployment.hardware.shares_memory and deployment.draft_degree < deployment.target_degree:
        # Every device would compute a draft of its own on the same cores and memory, which no calibration has seen.
        yield own, f"the target's {deployment.target_degree}: devices of one host would each compute the whole draft"
    for path, degree, model in (
        (shared, deployment.target_degree, scenario.target),
        (own, deployment.draft_degree, scenario.draft_model),
    ):
        if model is not None and degree > model.heads:
            instead = f", or a tensor_parallel of at most {model.heads}" if path[-1] == "chips" else ""
            yield path, f"at most {model.heads}{instead}: {model.name} has {model.heads} heads to share out"


def _calibration(scenario: Scenario) -> Found:
    deployment, hardware = scenario.deployment, scenario.deployment.hardware
    if deployment.calibration is None:
        return
    path: PathKey = ("deployment", "calibration")
    calibration = hardware.calibrations.get(deployment.calibration)
    if calibration is None:
        known = nearest(deployment.calibration, hardware.calibrations) or f"; {hardware.name} has none"
        yield path, f"a calibration of {hardware.name}{known}"
        return
    degrees = {deployment.target_degree} | ({deployment.draft_degree} if scenario.draft_model else set())
    for degree in sorted(degrees):
        parameters = calibration.for_chips(degree)
        if parameters is None:
            counts = ", ".join(str(p.chips) for p in calibration.parameters)
            yield path, f"a calibration that knows {degree} chips; '{deployment.calibration}' knows {counts}"
        elif degree > 1 and parameters.all_reduce is None:
            yield path, f"a calibration with the time of an all-reduce; '{deployment.calibration}' has none"


def _rates(scenario: Scenario) -> Found:
    hardware: HardwareProfile = scenario.deployment.hardware
    for path, model in ((("target",), scenario.target), (("draft", "model"), scenario.draft_model)):
        if model is not None and model.compute_dtype not in hardware.peaks.matmul:
            known = ", ".join(hardware.peaks.matmul)
            yield path, f"a model that computes in {known}: {hardware.name} states no rate for {model.compute_dtype}"


def _draft(scenario: Scenario) -> Found:
    draft, target = scenario.draft_model, scenario.target
    if draft is None:
        return
    path: PathKey = ("draft", "model")
    if draft.vocabulary != target.vocabulary:
        yield path, f"a draft with the target's {target.vocabulary:,} tokens; {draft.name} has {draft.vocabulary:,}"
    if None not in (draft.tokenizer, target.tokenizer) and draft.tokenizer != target.tokenizer:
        yield path, f"a draft with the target's tokenizer, {target.tokenizer}; {draft.name} has {draft.tokenizer}"


def _acceptance(scenario: Scenario) -> Found:
    law = scenario.acceptance
    if isinstance(law, ForcedAcceptance) and scenario.draft_model is not None:
        for index, count in enumerate(law.accepted):
            if count > scenario.decoding.lookahead:
                accepts = f"at most lookahead, which is {scenario.decoding.lookahead}"
                yield ("acceptance", "accepted", index), accepts


def _published(scenario: Scenario) -> Found:
    for index, value in enumerate(scenario.published):
        for name in value.at:
            if accepts := path_problem(name):
                yield ("published", index, "at", name), accepts
