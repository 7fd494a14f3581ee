"""What is counted of one operation of a forward pass, and the counts of a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.cost.shape import Array, Number, stored, tiled

LOGIT_BYTES = 4.0  # logits are float32 whatever the weights are


@dataclass(frozen=True)
class Operation:
    """What one operation of a step moves and computes on one chip, all layers together.

    `streamed_bytes` are weights or cached keys and values; `flop` counts a multiply-add as two and includes padding,
    which `model_flop` does not. `rows` are those that each weight is multiplied with.
    """

    name: str
    streamed_bytes: Array
    flop: Array
    model_flop: Array
    rows: Array


@dataclass(frozen=True)
class Matrix:
    """``count`` matrices of ``contract`` x ``out`` weights on a chip, and how many they are of the model.

    In memory they are padded as :func:`stored` says, in the matrix units along both sides.
    """

    contract: Number
    out: Number
    whole: Number
    layers: Number
    rows: Array
    bytes_each: Number
    tile: Number = 1
    count: Number = 1

    def operation(self, name: str, chips: Number) -> Operation:
        """What it moves and computes as the operation ``name``."""
        number = np.asarray(self.layers, dtype=np.float64) * self.count
        kept = number * stored(self.contract, self.out, self.tile)
        multiplied = number * tiled(self.contract, self.tile) * tiled(self.out, self.tile)
        whole = np.asarray(self.whole, dtype=np.float64) * self.layers / chips
        return Operation(
            name, kept * self.bytes_each, 2 * self.rows * multiplied, 2 * self.rows * whole, np.asarray(self.rows)
        )
