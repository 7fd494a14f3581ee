"""Do messages fit a terminal, and keep what can be copied out of them?"""

from __future__ import annotations

from simulator.cli.messages import WIDTH, within_width


def test_long_lines_go_on_under_the_words_of_the_problem() -> None:
    accepts = f"    accepts  one of {', '.join(f'name-{n}' for n in range(40))}"
    first, *more = within_width(accepts).splitlines()
    assert len(first) <= WIDTH
    assert all(line.startswith(" " * 13 + "name-") and len(line) <= WIDTH for line in more)
    assert " ".join([first.strip(), *(line.strip() for line in more)]) == accepts.strip()


def test_short_lines_and_paths_stay_whole() -> None:
    path = "/" + "a-folder/" * 20
    assert within_width(f"a.yaml:1:1  key\n{path}") == f"a.yaml:1:1  key\n{path}"
    place = f"{path}a b.yaml:12:3  workload.batch"
    assert within_width(place) == place
    assert path in within_width(f"read: {path} as llama")
