"""Records and reports on disk: read with located errors, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from simulator.errors import ConfigError, Problem
from simulator.files import ready, to_json, write

if TYPE_CHECKING:
    from simulator.spec.record import RunRecord

__all__ = ["ACCEPTS", "read_records", "ready", "records_json", "to_json", "write"]

ACCEPTS = 'JSON as `sps --json` prints it: {"records": [...]}'


def records_json(records: Iterable[RunRecord], **more: Any) -> str:
    """Records as JSON: keys sorted, so that the same records are the same bytes."""
    return to_json({"records": [record.to_json() for record in records]} | more)


def read_records(files: Sequence[str]) -> list[RunRecord]:
    """All records of some files, in order.

    Raises:
        ConfigError: every file that is not there, not JSON, or no records, with the place in the file.
    """
    from simulator.cli.located import LocatedJson
    from simulator.spec.problems import in_file_order

    records: list[RunRecord] = []
    problems: list[Problem] = []
    for file in files:
        try:
            records += LocatedJson.read(file).records()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(in_file_order(problems))
    return records
