"""A table and its plain text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 100
_GAP, _GAP_IN_GROUP = 2, 1


@dataclass(frozen=True)
class Column:
    """One column; neighbours with the same ``group`` stand under one heading."""

    name: str
    numeric: bool = True
    group: str = ""


@dataclass(frozen=True)
class Table:
    """Words in rows and columns."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def without_empty_columns(self) -> Table:
        """The same without the columns that say nothing in any row."""
        kept = [index for index in range(len(self.columns)) if any(row[index] for row in self.rows)]
        columns = tuple(self.columns[index] for index in kept)
        return Table(self.title, columns, tuple(tuple(row[i] for i in kept) for row in self.rows), self.note)

    def without_constant(self, *names: str) -> Table:
        """The same without those columns of ``names`` in which all rows say the same; the title then says it."""
        titles = [self.title] if self.title else []
        dropped = set()
        for index, column in enumerate(self.columns):
            words = {row[index] for row in self.rows}
            if column.name in names and len(words) == 1:
                dropped.add(index)
                titles.append(f"{column.name}: {words.pop()}")
        kept = [index for index in range(len(self.columns)) if index not in dropped]
        columns = tuple(self.columns[index] for index in kept)
        return Table(", ".join(titles), columns, tuple(tuple(row[i] for i in kept) for row in self.rows), self.note)

    def text(self, width: int = WIDTH) -> str:
        """Aligned plain text of at most ``width`` columns; the widest words are cut where they must be."""
        cells = [[plain(cell) for cell in row] for row in self.rows]
        names = [column.name for column in self.columns]
        sizes = [max(len(row[index]) for row in [names, *cells]) for index in range(len(names))]
        gaps = self._gaps()
        self._widen_for_headings(sizes, gaps)
        _shrink(sizes, width - sum(gaps), [not column.numeric for column in self.columns])
        lines = [self._headings(sizes, gaps)] if any(column.group for column in self.columns) else []
        lines += [self._line(row, sizes, gaps) for row in [names, *cells]]
        return "\n".join([*([self.title] if self.title else []), *lines, *([self.note] if self.note else [])])

    def _gaps(self) -> list[int]:
        """Space before each column."""
        near = [b.group != "" and a.group == b.group for a, b in itertools.pairwise(self.columns)]
        return [0, *(_GAP_IN_GROUP if together else _GAP for together in near)]

    def groups(self) -> list[tuple[str, int]]:
        """Headings over the columns, each with the number of columns under it."""
        runs = itertools.groupby(enumerate(self.columns), key=lambda item: item[1].group or item[0])
        return [(str(name) if isinstance(name, str) else "", len(list(run))) for name, run in runs]

    def _widen_for_headings(self, sizes: list[int], gaps: Sequence[int]) -> None:
        start = 0
        for name, count in self.groups():
            under = sum(sizes[start : start + count]) + sum(gaps[start + 1 : start + count])
            sizes[start] += max(0, len(name) - under)
            start += count

    def _headings(self, sizes: Sequence[int], gaps: Sequence[int]) -> str:
        line, start = "", 0
        for name, count in self.groups():
            size = sum(sizes[start : start + count]) + sum(gaps[start + 1 : start + count])
            alone = count == 1 and self.columns[start].numeric
            line += " " * gaps[start] + (name.rjust(size) if alone else name.ljust(size))
            start += count
        return line.rstrip()

    def _line(self, row: Sequence[str], sizes: Sequence[int], gaps: Sequence[int]) -> str:
        line = ""
        for cell, size, gap, column in zip(row, sizes, gaps, self.columns, strict=True):
            cut = cell if len(cell) <= size else f"{cell[: max(size - 2, 0)]}.."
            line += " " * gap + (cut.rjust(size) if column.numeric else cut.ljust(size))
        return line.rstrip()


def plain(text: str) -> str:
    """``text`` on one line and without the control characters that would steer a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _shrink(sizes: list[int], room: int, may_be_cut: Sequence[bool]) -> None:
    """Take from the widest columns of words until the line fits; numbers are never cut."""
    words = [index for index, allowed in enumerate(may_be_cut) if allowed]
    while sum(sizes) > room and words:
        widest = max(words, key=lambda index: sizes[index])
        if sizes[widest] <= 6:
            return
        sizes[widest] -= 1
