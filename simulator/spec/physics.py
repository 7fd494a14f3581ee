"""Mistakes that no single key shows: heads against chips, vocabularies against each other, names against a profile."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from simulator.errors import Problem
from simulator.spec.acceptance import ForcedAcceptance, RecordedAcceptance
from simulator.spec.axes import path_problem
from simulator.spec.document import Document, PathKey, dotted
from simulator.spec.drafting import ModelDraft
from simulator.spec.hardware import HardwareProfile
from simulator.spec.layouts import layout_problems
from simulator.spec.model import ModelSpec
from simulator.spec.problems import nearest
from simulator.spec.scenario import Scenario
from simulator.spec.topology import TorusTopology, hosts_of, parse_slice, slice_chips

Found = Iterator[tuple[PathKey, str]]
# Where these are swept, some points may draft nothing and leave unused what was measured for the others.
_MAY_DRAFT_NOTHING: set[PathKey] = {("draft",), ("draft", "kind"), ("decoding",), ("decoding", "lookahead")}


def physics_problems(scenario: Scenario, document: Document, swept: Collection[PathKey] = ()) -> list[Problem]:
    """Everything in ``scenario`` that is well formed and cannot be; ``swept`` are the paths that vary beside it."""
    problems: list[Problem] = []
    checks = [_chips, _degrees, _placement, _links, _hosts, _calibration, _rates, _draft, _acceptance, _published]
    if not _MAY_DRAFT_NOTHING.intersection(swept):
        checks.append(_measured)
    for check in checks:
        for path, accepts in check(scenario):
            place = document.place(path)
            # Where a part is a mapping, or follows from a default, there are no words to quote.
            words = place.text if path in document.places and place.text != "a mapping" else ""
            problems.append(place.problem(dotted(path), accepts, words))
    return problems


def _chips(scenario: Scenario) -> Found:
    deployment, topology = scenario.deployment, scenario.deployment.hardware.topology
    own = deployment.own_draft_chips
    most = topology.max_chips.value if isinstance(topology, TorusTopology) and topology.max_chips else None
    if most is not None and deployment.chips > most:
        yield ("deployment", "chips"), f"at most {most:,}: a pod of {deployment.hardware.name} has no more chips"
    if own >= deployment.chips:
        yield ("deployment", "chips"), f"more than {own}: the draft has {own} of its own, the target needs others"
        return
    target = ("chips", deployment.chips) if not own else ("the target's chips", deployment.target_chips)
    draft = ("the chips of the draft", deployment.draft_degree)
    for path, text, (what, chips) in (
        (("deployment", "slice"), deployment.slice, target),
        (("deployment", "draft", "slice"), deployment.draft.slice, draft),
    ):
        if text is None:
            continue
        if not isinstance(topology, TorusTopology):
            yield path, f"no slice; {deployment.hardware.name} is not connected as a torus"
            continue
        if len(parse_slice(text)) != topology.axes:
            yield path, f"{topology.axes} axes, such as {'x'.join(['2'] * topology.axes)}"
        longest = topology.max_axis.value if topology.max_axis else None
        if longest is not None and max(parse_slice(text)) > longest:
            yield path, f"axes of at most {longest}: a pod of {deployment.hardware.name} is no longer"
        if slice_chips(text) != chips:
            yield path, f"axes whose product is {what}; here {slice_chips(text)} and {chips}"


def _degrees(scenario: Scenario) -> Found:
    deployment = scenario.deployment
    chips, degree, stages = deployment.target_chips, deployment.target_degree, deployment.pipeline_parallel
    shared: PathKey = ("deployment", "tensor_parallel" if deployment.tensor_parallel else "chips")
    own: PathKey = ("deployment", "draft", "tensor_parallel") if deployment.draft.tensor_parallel else shared
    of = "chips" if not deployment.own_draft_chips else "the target's chips"
    if chips < 1:
        return
    if stages > scenario.target.layers:
        yield ("deployment", "pipeline_parallel"), f"at most {scenario.target.layers}: the target has no more layers"
    if chips % (degree * stages):
        beside = f", beside {stages} stages" if stages > 1 else ""
        yield shared, f"a divisor of {of}, which is {chips}{beside}"
    elif degree * stages < chips:
        yield shared, f"{of}, which is {chips}: data parallelism is not modelled, and the other chips would idle"
    if deployment.hardware.shares_memory and stages > 1:
        yield ("deployment", "pipeline_parallel"), "1: devices of one host share its memory and cores"
    yield from _experts(scenario)
    yield from layout_problems(scenario)
    # Heads are split over the chips that do not split the width, or over those that attend to the same sequences.
    sharing = max(degree // scenario.width_parts, degree // scenario.sequence_groups)
    for path, over, model in ((shared, sharing, scenario.target), (own, deployment.draft_degree, scenario.draft_model)):
        if model is not None and over > model.heads:
            of_draft = model is scenario.draft_model
            fewer = f", or a draft placed on sub_slice or replicated with a tensor_parallel of at most {model.heads}"
            instead = fewer if of_draft and path[-1] == "chips" else ""
            yield path, f"at most {model.heads}{instead}: {model.name} has {model.heads} heads to share out"


def _experts(scenario: Scenario) -> Found:
    deployment, experts = scenario.deployment, scenario.target.experts
    groups, degree = deployment.expert_parallel, deployment.target_degree
    path: PathKey = ("deployment", "expert_parallel")
    if experts is None:
        if groups > 1:
            yield path, f"1: {scenario.target.name} has no experts"
        if deployment.expert_dispatch != "all_reduce":
            yield ("deployment", "expert_dispatch"), f"only all_reduce: {scenario.target.name} has no experts"
    elif groups == 1 and deployment.expert_dispatch == "all_to_all":
        yield path, "at least 2 where tokens are sent: with one group every chip needs every token"
    elif degree % groups:
        yield path, f"a divisor of the target's tensor_parallel, which is {degree}"
    elif groups > experts.count:
        yield path, f"at most {experts.count}: {scenario.target.name} has no more experts"


def _placement(scenario: Scenario) -> Found:
    """Where the draft may lie beside the target."""
    deployment, draft = scenario.deployment, scenario.deployment.draft
    target, own = deployment.target_degree, deployment.draft_degree
    path: PathKey = ("deployment", "draft", "placement")
    degree: PathKey = ("deployment", "draft", "tensor_parallel")
    if scenario.draft_model is None:
        if draft.placement != "same_chips":
            yield path, "no placement: nothing drafts"
        if draft.ahead:
            yield ("deployment", "draft", "ahead"), "only false: nothing drafts"
        return
    if deployment.hardware.shares_memory and draft.placement != "same_chips":
        yield path, "only same_chips: devices of one host share its memory and cores"
    elif deployment.hardware.shares_memory and own < target:
        # Every device would compute a draft of its own on the same cores and memory, which no calibration has seen.
        yield degree, f"the target's {target}: devices of one host would each compute the whole draft"
    elif draft.placement == "same_chips" and own != target:
        yield degree, f"the target's {target}, or a placement of sub_slice, replicated or own_chips"
    elif draft.placement == "replicated" and target % own:
        yield degree, f"a divisor of the target's tensor_parallel, which is {target}"
    elif draft.placement in ("replicated", "sub_slice") and own >= target:
        yield degree, f"fewer than the target's {target}; with as many the placement is same_chips"
    if draft.ahead and draft.placement != "own_chips":
        yield ("deployment", "draft", "ahead"), "only a draft on own_chips: on the target's it waits for its turn"
    elif draft.ahead and scenario.workload.batch > 1:
        yield ("deployment", "draft", "ahead"), "a batch of 1: in a larger one some sequence is nearly always rejected"


def _links(scenario: Scenario) -> Found:
    """What the calibration must know of links, and where chips must lie for it."""
    deployment = scenario.deployment
    calibration = deployment.hardware.calibrations.get(deployment.calibration or "")
    if calibration is None:
        return
    name = deployment.calibration
    models = [("slice", deployment.target_degree, deployment.slice is not None)]
    if scenario.draft_model is not None and deployment.draft.placement != "same_chips":
        models.append(("draft.slice", deployment.draft_degree, deployment.draft.slice is not None))
    for key, degree, known in models:
        parameters = calibration.for_chips(degree)
        wires = parameters.all_reduce if parameters is not None else None
        along = degree > 1 and wires is not None and wires.algorithm == "torus"
        if along and key == "slice" and deployment.pipeline_parallel > 1:
            accepts = f"1: the all-reduce of '{name}' runs along the axes of the whole slice"
            yield ("deployment", "pipeline_parallel"), accepts
        elif along and not known:
            path: PathKey = ("deployment", *key.split("."))
            yield path, f"chips along each axis: the all-reduce of '{name}' runs along them"
    parameters = calibration.for_chips(deployment.target_degree)
    sends = scenario.draft_model is not None and deployment.draft.placement in ("own_chips", "sub_slice")
    known = parameters is None or parameters.point_to_point is not None or parameters.all_reduce is not None
    if not known and (sends or deployment.pipeline_parallel > 1):
        accepts = f"a calibration with the time of a message between chips; '{name}' has none"
        yield ("deployment", "calibration"), accepts


def _hosts(scenario: Scenario) -> Found:
    """How a model may be spread over hosts, and whether the calibration knows their network."""
    deployment = scenario.deployment
    hosts = hosts_of(deployment.hardware.topology)
    if hosts is None or deployment.chips <= hosts.chips_per_host.value:
        return
    local, draft = hosts.chips_per_host.value, scenario.draft_model is not None
    shared: PathKey = ("deployment", "tensor_parallel" if deployment.tensor_parallel else "chips")
    own: PathKey = ("deployment", "draft", "tensor_parallel") if deployment.draft.tensor_parallel else shared
    degrees = {deployment.target_degree: shared} | ({deployment.draft_degree: own} if draft else {})
    for degree, path in degrees.items():
        if degree % local and local % degree:
            yield path, f"a divisor or a multiple of {local}, the chips of a host, for each model that is sharded"
    calibration = deployment.hardware.calibrations.get(deployment.calibration or "")
    if calibration is None:
        return
    between = deployment.pipeline_parallel > 1 or (draft and deployment.draft.placement in ("own_chips", "sub_slice"))
    for degree in sorted(degrees):
        parameters = calibration.for_chips(degree)
        if parameters is None or parameters.network is not None:
            continue
        wires = parameters.all_reduce
        whole = wires is not None and wires.algorithm == "table" and parameters.chips is not None
        if between or (degree > local and not whole):
            accepts = f"a calibration with the time of a message between hosts, of {local} chips each; "
            yield ("deployment", "calibration"), f"{accepts}'{deployment.calibration}' has no network"
            return


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
    if scenario.target.hidden_states is not None:
        yield ("target",), f"a model of its own: {scenario.target.name} is a draft head"
    hardware: HardwareProfile = scenario.deployment.hardware
    for path, model in ((("target",), scenario.target), (("draft", "model"), scenario.draft_model)):
        if model is not None and model.rate_dtype not in hardware.peaks.matmul:
            known = ", ".join(hardware.peaks.matmul)
            yield path, f"a model that computes in {known}: {hardware.name} states no rate for {model.rate_dtype}"


def _draft(scenario: Scenario) -> Found:
    draft, target = scenario.draft_model, scenario.target
    if draft is None:
        return
    path: PathKey = ("draft", "model")
    yield from _heads(scenario, draft)
    subset = isinstance(scenario.draft, ModelDraft) and scenario.draft.vocabulary_map == "subset"
    if subset and draft.vocabulary > target.vocabulary:
        yield path, f"a draft of at most the target's {target.vocabulary:,} tokens; {draft.name} has more"
    elif not subset and draft.vocabulary != target.vocabulary:
        yield path, f"a draft with the target's {target.vocabulary:,} tokens; {draft.name} has {draft.vocabulary:,}"
    if None not in (draft.tokenizer, target.tokenizer) and draft.tokenizer != target.tokenizer:
        yield path, f"a draft with the target's tokenizer, {target.tokenizer}; {draft.name} has {draft.tokenizer}"


def _heads(scenario: Scenario, draft: ModelSpec) -> Found:
    """What a draft that reads the target's hidden states, or an encoder, asks of the target and of its place."""
    path: PathKey = ("draft", "model") if isinstance(scenario.draft, ModelDraft) else ("draft",)
    target, reads = scenario.target, draft.hidden_states
    if (draft.encoder is None) != (target.encoder is None):
        which = "an encoder" if target.encoder is not None else "no encoder"
        yield path, f"a draft with {which}: {target.name} has {which}"
    if reads is None:
        return
    width = reads.width or draft.d_model
    if width != target.d_model:
        yield path, f"a draft head for hidden states of width {target.d_model:,}; {draft.name} reads {width:,}"
    if scenario.deployment.own_draft_chips:
        yield ("deployment", "draft", "placement"), "chips of the target: a draft head reads its hidden states there"
    if reads.proposes == "heads" and scenario.lookahead > reads.lm_heads:
        yield ("decoding", "lookahead"), f"at most {reads.lm_heads}: {draft.name} has no more heads"


def _acceptance(scenario: Scenario) -> Found:
    law = scenario.acceptance
    if isinstance(law, ForcedAcceptance) and scenario.draft_model is not None:
        for index, count in enumerate(law.accepted):
            if count > scenario.decoding.lookahead:
                accepts = f"at most lookahead, which is {scenario.decoding.lookahead}"
                yield ("acceptance", "accepted", index), accepts
    if isinstance(law, RecordedAcceptance) and scenario.lookahead > law.recorded_lookahead:
        yield ("decoding", "lookahead"), f"at most {law.recorded_lookahead}, at which acceptance was recorded"


def _published(scenario: Scenario) -> Found:
    for index, value in enumerate(scenario.published):
        for name in value.at:
            if accepts := path_problem(name):
                yield ("published", index, "at", name), accepts


def _measured(scenario: Scenario) -> Found:
    if scenario.measured is None or scenario.lookahead > 0:
        return
    why = "nothing drafts" if scenario.draft_model is None else "at a lookahead of 0 nothing is drafted"
    for name in ("draft_step", "verify_step"):
        if getattr(scenario.measured, f"{name}_s") is not None:
            yield ("measured", name), f"no {name}: {why}"
