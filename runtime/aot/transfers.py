"""Transfers that run beside the operations of a schedule: weights and cache on their way between HBM and the chip."""

from __future__ import annotations

from runtime.aot.hlo import Module, Operation

JOINED = "ConcatBitcast"
"""The custom call that takes the slices of one array, fetched apart, as the whole."""


def is_transfer(module: Module, op: Operation) -> bool:
    """Whether it starts a copy that runs beside what follows."""
    if op.opcode == "async-start":
        return module.computations[op.called[0]].root.opcode in ("copy", "slice", "dynamic-slice")
    return op.opcode in ("copy-start", "slice-start")


def carried_over(module: Module) -> frozenset[str]:
    """Transfers at the start of a program that the call before has already made, at its end, for this one.

    The compiler keeps one argument in on-chip memory from call to call ("cross-program prefetch"). Where a program
    fetches it again at its end, the transfer at its start moves nothing but in the very first call.
    """
    starts = [op for op in module.entry.operations if is_transfer(module, op)]
    early = [op for op in starts if "cross_program_prefetch_index" in op.attributes]
    late = {op.operands[0] for op in starts if op not in early}
    return frozenset(op.name for op in early if op.operands[0] in late)
