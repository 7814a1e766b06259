"""What a person sees last of a mistake: every case is clear, none is buried or wrong.

The cases are data in ``errors/``, by kind. Those of commands take seconds, and wait at the same time; those of scripts
need Spark, one session for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from errors import cases_commands, cases_options, cases_scripts
from errors.case import CLEAR, Case, Outcome, last_lines, verdict
from errors.running import outcomes_of
from errors.wrong_servers import wrong_servers

COMMANDS = [*cases_options.CASES, *cases_commands.CASES]
#: Of each way to end: the script that is installed must end in the same way, in a new Python.
WITNESSES = ("server-cassandra-refused", "command-dashboard-unwritable", "command-unknown")
SCRIPT = "script-"
BY_SCRIPT = [
    replace(case, name=SCRIPT + case.name, surface="script", waits=False) for case in COMMANDS if case.name in WITNESSES
]
SCRIPTS = cases_scripts.CASES
_COMMANDS_S, _SCRIPTS_S = 300.0, 1800.0


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with wrong_servers(tmp_path_factory.mktemp("servers")) as found:
        yield found


def chosen(request: pytest.FixtureRequest, cases: Sequence[Case]) -> list[Case]:
    """Those that this run of pytest is about."""
    names = {getattr(item, "callspec", None) and item.callspec.params.get("case") for item in request.session.items}
    return [case for case in cases if case in names]


@pytest.fixture(scope="module")
def of_commands(request, tmp_path_factory, addresses) -> dict[str, Outcome]:
    cases = chosen(request, [*COMMANDS, *BY_SCRIPT])
    witnessed = {case.name.removeprefix(SCRIPT) for case in cases}
    cases += [case for case in COMMANDS if case.name in witnessed and case not in cases]
    return outcomes_of(cases, tmp_path_factory.mktemp("commands"), addresses, _COMMANDS_S)


@pytest.fixture(scope="module")
def of_scripts(request, tmp_path_factory, addresses) -> dict[str, Outcome]:
    return outcomes_of(chosen(request, SCRIPTS), tmp_path_factory.mktemp("scripts"), addresses, _SCRIPTS_S)


def assert_clear(case: Case, outcome: Outcome | None) -> None:
    assert outcome is not None, "it did not run"
    assert verdict(case, outcome) == CLEAR, last_lines(outcome)


def test_there_are_hundreds_of_cases_each_with_a_name_of_its_own():
    names = [case.name for case in (*COMMANDS, *SCRIPTS)]
    assert len(names) == len(set(names)) >= 300
    assert len(BY_SCRIPT) == len(WITNESSES)


@pytest.mark.parametrize(
    ("err", "expected"),
    [
        ("penstock: in/a.csv is bad: fix it [PENSTOCK-FILES-004]\n", CLEAR),
        ("penstock: in/a.csv is bad: fix it [PENSTOCK-FILES-004]\n== Plan ==\n+- Scan\n+- Scan\n", "buried"),
        ("penstock: something is bad [PENSTOCK-FILES-004]\n", "wrong"),
        ("penstock: in/a.csv is bad: fix it\n", "wrong"),
        ("Traceback (most recent call last):\npenstock: in/a.csv is bad: fix it [PENSTOCK-FILES-004]\n", "wrong"),
        ("hunter2\npenstock: in/a.csv is bad: fix it [PENSTOCK-FILES-004]\n", "wrong"),
    ],
)
def test_the_score_tells_clear_from_buried_and_wrong(err, expected):
    case = Case("x", "cli", ["x"], [r"a\.csv", "fix"], 1, hidden=["hunter2"])
    assert verdict(case, Outcome("", err, 1)).startswith(expected)
    assert verdict(case, Outcome("", err, 0)).startswith("wrong")


@pytest.mark.timeout(_COMMANDS_S)
@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case.name)
def test_a_command_ends_with_a_clear_line(case, of_commands):
    assert_clear(case, of_commands.get(case.name))


@pytest.mark.timeout(_COMMANDS_S)
@pytest.mark.parametrize("case", BY_SCRIPT, ids=lambda case: case.name)
def test_the_installed_script_ends_in_the_same_way(case, of_commands):
    by_script = of_commands[case.name]
    assert_clear(case, by_script)
    name = case.name.removeprefix(SCRIPT)  # of its folder, too
    called = of_commands[name]
    shown = [text.replace(case.name, name) for text in (by_script.out, by_script.err)]
    assert [*shown, by_script.exit_code] == [called.out, called.err, called.exit_code]


@pytest.mark.spark
@pytest.mark.exhaustive("a hundred failing jobs; core/tests/test_error_codes.py and the cases of commands are quick")
@pytest.mark.timeout(_SCRIPTS_S)
@pytest.mark.parametrize("case", SCRIPTS, ids=lambda case: case.name)
def test_a_script_ends_with_a_clear_line(case, of_scripts):
    assert_clear(case, of_scripts.get(case.name))
