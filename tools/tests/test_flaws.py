"""The catalogue of planted flaws: each can still be planted, and the runner sees what the kit catches."""

from __future__ import annotations

import shutil
from collections import defaultdict

import pytest

from flaws import table
from flaws.bases import BASES
from flaws.catalogue import BadFlaw, Change, Flaw, catalogue
from flaws.running import HANGS, MISSED, Outcome, clean, run
from penstock.testing import SinkSuite, SourceSuite

#: What flaws are planted in. Named for ``scripts/test --changed``.
PLANTED_IN = (
    "core/tests/flaws",
    "core/src/penstock/testing/_samples",
    "examples/penstock-sqlite",
    "examples/penstock-basics",
)
FLAWS = {flaw.name: flaw for flaw in catalogue()}


def test_every_flaw_can_be_planted(tmp_path):
    by_base = defaultdict(list)
    for flaw in FLAWS.values():
        by_base[flaw.base].append(flaw)
    problems = []
    for number, (base, flaws) in enumerate(by_base.items()):
        package = BASES[base].make(tmp_path / str(number), 1)
        for flaw in flaws:
            planted = shutil.copytree(package, tmp_path / "planted", dirs_exist_ok=True)
            try:
                for change in flaw.changes:
                    change.apply(planted)
            except (BadFlaw, OSError) as error:
                problems.append(f"{flaw.name}: {error}")
    assert not problems, "\n".join(problems)


def test_the_table_is_of_this_catalogue():
    assert table.read().keys() == FLAWS.keys(), "run scripts/flaws --new"


def test_every_case_of_the_table_is_one_of_the_kit():
    gone = []
    for name, outcome in table.read().items():
        suite = SourceSuite if "source" in FLAWS[name].base else SinkSuite
        case = outcome.case.partition("[")[0]
        if case not in (MISSED, HANGS) and not hasattr(suite, case):
            gone.append(f"{suite.__name__}.{case}")
    assert not gone


@pytest.mark.parametrize("name", ["visibility/writes-in-place", "commit/only-the-first"])
def test_a_flaw_is_caught(name):
    outcome = run(FLAWS[name])
    assert outcome.case.startswith("test_"), outcome


def one_of_each_kind() -> list[object]:
    """Returns the flaws with a case of their own, the others of a kind in the second tier."""
    names: list[object] = []
    kinds: set[str] = set()
    for name in (name for name, flaw in FLAWS.items() if flaw.by):
        kind = name.partition("/")[0]
        marks = pytest.mark.exhaustive("another flaw of a kind; the first of each kind is the witness")
        names.append(pytest.param(name, marks=marks) if kind in kinds else name)
        kinds.add(kind)
    return names


@pytest.mark.parametrize("name", one_of_each_kind())
def test_a_case_catches_its_flaw_alone(name):
    flaw = FLAWS[name]
    assert run(flaw, select=flaw.by).case.partition("[")[0] == flaw.by


#: Which case is the first to see them is decided by how bytes arrive at a socket, or by which ids are drawn.
BY_CHANCE = {"failing/shutdown-is-not-awaited", "reading/rest-of-a-chunk", "names/a-short-attempt"}


@pytest.mark.exhaustive("runs the kit on each of the flaws; those with a case of their own are the witnesses")
@pytest.mark.budget(120)
@pytest.mark.parametrize("name", [name for name, flaw in FLAWS.items() if not flaw.reason])
def test_the_case_of_the_table_catches_its_flaw(name):
    known = table.read()[name].case.partition("[")[0]
    if run(FLAWS[name], select=known).case.partition("[")[0] != known:
        # Such as a position that is kept in a class: it shows in the second case that runs.
        outcome = run(FLAWS[name])
        assert outcome.case.partition("[")[0] == known or (name in BY_CHANCE and outcome.case.startswith("test_"))


@pytest.mark.parametrize("case", ["many_rows", "crash_at_every_step"])
def test_what_takes_most_passes_without_a_flaw(case):
    assert run(clean("connector sink"), select=case).case == MISSED


def test_a_change_without_effect_is_missed_and_one_that_hangs_ends(monkeypatch):
    harmless = Change("sink/_writer.py", "self._rows += batch.num_rows", "self._rows += len(batch)")
    assert run(Flaw("none/harmless", "", "", "sink", (harmless,)), select="test_rows_arrive").case == MISSED
    endless = Change("sink/_writer.py", "self._rows += batch.num_rows", "while True: pass")
    monkeypatch.setattr("flaws.running._LIMIT_S", 3.0)
    assert run(Flaw("none/endless", "", "", "sink", (endless,)), select="test_rows_arrive").case == HANGS


def test_a_suite_that_can_not_run_is_no_catch():
    broken = Change("sink/_writer.py", "import pyarrow as pa", "import pyarroww as pa")
    with pytest.raises(BadFlaw, match="can't run"):
        run(Flaw("none/broken", "", "", "sink", (broken,)))


def test_a_change_has_to_fit_once(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\ny = 1\n")
    with pytest.raises(BadFlaw, match="2 times"):
        Change("a.py", "1", "2").apply(tmp_path)
    with pytest.raises(BadFlaw, match="no Python"):
        Change("a.py", "x = 1", "x = (").apply(tmp_path)


def test_the_table_can_be_read_back(tmp_path):
    flaws = [Flaw(f"kind/{case}", "What | it is.", "review", "sink", (), reason="why") for case in "abc"]
    outcomes = {
        "kind/a": Outcome("test_x[a]", 3, 1),
        "kind/b": Outcome(MISSED, 4),
        "kind/c": Outcome(HANGS, 90),
    }
    table.write(flaws, outcomes, tmp_path / "table.md")
    assert table.read(tmp_path / "table.md") == outcomes
    assert "33 %" in (tmp_path / "table.md").read_text()


@pytest.mark.exhaustive(
    "runs the kit in every base; the witness test_what_takes_most_passes_without_a_flaw runs two cases in one"
)
@pytest.mark.budget(600)
@pytest.mark.parametrize("base", BASES)
def test_without_a_flaw_every_base_passes(base):
    assert run(clean(base)).case == MISSED
