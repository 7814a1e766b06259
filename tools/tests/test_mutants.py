"""The tool for mutation testing: which mutants there are, how one is tried, and how survivors are remembered."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path

import pytest

from mutants.faults import mutants_of
from mutants.run import Outcome, run
from mutants.scopes import SCOPES
from mutants.survivors import Survivors
from mutants.trial import Limits, Trial

ROOT = Path(__file__).parents[2]


def found(tmp_path, source, operator=""):
    (tmp_path / "code.py").write_text(textwrap.dedent(source))
    return [mutant for mutant in mutants_of(tmp_path, "code.py") if mutant.operator.startswith(operator)]


def changes(mutants):
    return [(mutant.before, mutant.after) for mutant in mutants]


def test_a_statement_is_left_out(tmp_path):
    source = '''
        class A:
            """A docstring."""

            def __init__(self):
                self.made = 1

            def act(self):
                """Another."""
                self.made = call(
                    2
                )
                call(3)
                name = call(4)
                return name
        '''
    mutants = found(tmp_path, source, "LeaveOut")
    assert changes(mutants) == [("self.made = call( 2 )", "pass"), ("call(3)", "pass")]
    assert [mutant.function for mutant in mutants] == ["A.act", "A.act"]
    assert [mutant.line for mutant in mutants] == [10, 13]
    assert "        pass\n        name = call(4)\n" in mutants[1].source


def test_membership_becomes_its_opposite(tmp_path):
    mutants = found(tmp_path, "def f(a, b):\n    return [x for x in a if x in b], a not in b\n", "Opposite")
    line = "return [x for x in a if x in b], a not in b"
    assert changes(mutants) == [
        (line, "return [x for x in a if x not in b], a not in b"),
        (line, "return [x for x in a if x in b], a in b"),
    ]


def test_another_exception_is_caught(tmp_path):
    handlers = (
        "    except (a.b.C, D) as error:\n        pass\n    except a.E:\n        pass\n    except (F):\n        pass\n"
    )
    mutants = found(tmp_path, f"def f():\n    try:\n        g()\n{handlers}", "OtherException")
    assert changes(mutants) == [
        ("except (a.b.C, D) as error:", "except (AnotherException, D) as error:"),
        ("except (a.b.C, D) as error:", "except (a.b.C, AnotherException) as error:"),
        ("except a.E:", "except AnotherException:"),
        ("except (F):", "except (AnotherException):"),
    ]


def test_cosmic_rays_operators(tmp_path):
    mutants = found(tmp_path, "def f(a):\n    return a == 3\n")
    assert {"return a == 4", "return a == 2", "return a != 3", "return a < 3"} <= {mutant.after for mutant in mutants}


def test_what_no_test_could_notice_is_no_mutant(tmp_path):
    source = """
        from __future__ import annotations

        from a import b
        if TYPE_CHECKING:
            call()

        def f(a: int | None, *, b: dict[str, 3]) -> int | None:
            c: list[1] = a
            _log.warning("%d", 1 + a)
            return c
        """
    assert found(tmp_path, source) == []


def test_what_is_no_python_is_no_mutant(tmp_path):
    for mutant in found(tmp_path, "def f(a, *b, **c):\n    return g(*a, **{**c, 'x': -1})\n"):
        compile(mutant.source, "code.py", "exec")


def test_a_mutant_is_known_again_when_lines_have_moved(tmp_path):
    before = found(tmp_path, "def f(a):\n    call(a)\n    call(a)\n", "LeaveOut")
    after = found(tmp_path, "x = {}\n\n\ndef f(a):\n    call(a)\n    # a comment\n    call(a)\n", "LeaveOut")
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after] and len({m.key for m in before}) == 2


def test_a_reason_without_a_mutant_is_told(tmp_path):
    (mutant,) = found(tmp_path, "def f(a):\n    call(a)\n", "LeaveOut")
    known = Survivors({"code.py": {mutant.key: "the reason", "another": "stale"}})
    assert known.reason(mutant) == "the reason" and known.stale([mutant], ["code.py"]) == ["code.py: another"]
    assert known.stale([mutant], ["other.py"]) == []


def test_every_listed_reason_has_its_mutant():
    """Of the quickest file; the tool does so for the others."""
    file = "core/src/penstock/_commit/_publishing.py"
    assert Survivors.load().stale(mutants_of(ROOT, file), [file]) == []


def test_scopes_name_what_is_there():
    for scope in SCOPES.values():
        for path in (*scope.sources, *(test.partition("::")[0] for stage in scope.stages for test in stage)):
            assert (ROOT / path).is_file(), path


@pytest.fixture
def package():
    """Code, and tests of it, where tests of the repository are. Each process has its own: a long file is divided."""
    folder = ROOT / ".cache" / f"mutants-tests-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "mutated_code.py").write_text("def bounded(a):\n    while a > 3:\n        a -= 1\n    return a\n")
    (folder / "test_mutated.py").write_text(
        f"import sys\nsys.path.insert(0, {str(folder)!r})\nfrom mutated_code import bounded\n\n\n"
        "def test_bounded():\n    assert [bounded(a) for a in (2, 4)] == [2, 3]\n"
    )
    yield folder
    shutil.rmtree(folder)


def test_mutants_are_tried(package):
    file = str((package / "mutated_code.py").relative_to(ROOT))
    mutants = {mutant.after: mutant for mutant in mutants_of(ROOT, file)}
    chosen = [mutants["while a > 2:"], mutants["while a >= 3:"], mutants["a -= 2"]]
    told: list[Outcome] = []
    outcomes = run([[str(package / "test_mutated.py")]], chosen, 1, told.append)
    assert outcomes == told and [outcome.is_killed for outcome in outcomes] == [True, True, True]
    assert outcomes[0].killer is not None and outcomes[0].killer.endswith("test_mutated.py::test_bounded")


def test_a_mutant_that_nothing_notices_survives(package):
    (package / "test_mutated.py").write_text("def test_nothing():\n    import time\n")
    file = str((package / "mutated_code.py").relative_to(ROOT))
    (outcome,) = run([[str(package / "test_mutated.py")]], mutants_of(ROOT, file)[:1], 1, lambda outcome: None)
    assert not outcome.is_killed and outcome.killer is None


def test_a_mutant_that_never_ends_is_killed(package, monkeypatch):
    monkeypatch.setattr(Limits, "of", lambda self, test: 2.0 if test else 60.0)
    endless = (package / "mutated_code.py").read_text().replace("a -= 1", "pass")
    mutated = (str((package / "mutated_code.py").relative_to(ROOT)), endless)
    trial = Trial([str(package / "test_mutated.py")], mutated=mutated, limits=Limits({}))
    while not trial.is_over:
        if trial.remaining_s:
            trial.on_readable() if trial.has_news(trial.remaining_s) else None
        else:
            trial.time_out()
    assert trial.is_timed_out and trial.killer is not None and trial.killer.endswith("test_bounded")


@pytest.mark.parametrize(
    "harm",
    [
        "os.rmdir({0!r})",
        *(
            pytest.param(harm, marks=pytest.mark.exhaustive("another harm; a directory that is removed is the witness"))
            for harm in ("open({0!r} + '/x', 'w')", "os.rename({0!r}, 'x')", "subprocess.run(['true'])")
        ),
    ],
)
def test_a_mutant_that_would_do_harm_dies_before_it_does(package, tmp_path, harm):
    """Also where the code would go on after an error."""
    source = f"""
import os, subprocess


def bounded(a):
    try:
        {harm.format(str(tmp_path))}
    except BaseException:
        pass
    return min(a, 3)
"""
    mutated = (str((package / "mutated_code.py").relative_to(ROOT)), source)
    trial = Trial([str(package / "test_mutated.py")], mutated=mutated)
    while not trial.is_over:
        trial.on_readable()
    assert trial.killer is not None and trial.trespass and tmp_path.is_dir() and not list(tmp_path.iterdir())


def test_a_mutant_may_use_its_scratch_directory(package):
    (package / "test_mutated.py").write_text("def test_write(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    mutated = (str((package / "mutated_code.py").relative_to(ROOT)), "")
    trial = Trial([str(package / "test_mutated.py")], mutated=mutated)
    while not trial.is_over:
        trial.on_readable()
    assert trial.trespass == "" and trial.killer is None


def test_tests_that_fail_without_a_fault_stop_everything(package):
    (package / "test_mutated.py").write_text("def test_broken():\n    assert False\n")
    file = str((package / "mutated_code.py").relative_to(ROOT))
    with pytest.raises(SystemExit, match=r"fail without any fault: .*test_broken"):
        run([[str(package / "test_mutated.py")]], mutants_of(ROOT, file)[:1], 1, lambda outcome: None)


def test_survivors_are_written_by_reason():
    for file, groups in json.loads(Survivors.path.read_text()).items():
        assert (ROOT / file).is_file() and all(groups.values())
