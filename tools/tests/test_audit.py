"""What is made of pip-audit's answers."""

from __future__ import annotations

import json

import pytest

from audit.__main__ import NOT_AUDITED, audit, first_of

OLD = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"]}]}
OPEN = {"name": "open", "version": "3", "vulns": [{"id": "PYSEC-2", "fix_versions": []}]}
GOOD = {"name": "good", "version": "1.0", "vulns": []}
UNKNOWN = {"name": "old", "skip_reason": "Dependency not found on PyPI and could not be audited: old (1.0)"}


def told(tmp_path, answers, *, strict=False):
    """Exit code and lines, if pip-audit gives ``answers`` one after the other."""
    file = tmp_path / "requirements.txt"
    file.write_text("# comment\n-e x\nold==1.0\nopen==3\n")
    given, lines, asked = iter(answers), [], []

    def run(path):
        asked.append(path.read_text())
        found = next(given)
        return found if isinstance(found, tuple) else (0, json.dumps({"dependencies": found, "fixes": []}), "")

    return audit(run, [file], lines.append, strict=strict), lines, asked


def test_vulnerabilities_fail(tmp_path):
    code, lines, asked = told(tmp_path, [[OLD], [OPEN, GOOD, OLD]])
    assert code == 1 and asked[0] == "old==1.0\n" and "open==3" in asked[1]
    assert lines == ["old 1.0: PYSEC-1, fixed in 1.1, 2.0", "open 3: PYSEC-2, fixed in none yet"]


def test_none_passes_without_a_word(tmp_path):
    assert told(tmp_path, [[GOOD], [GOOD]])[:2] == (0, [])


@pytest.mark.parametrize("answer", [[UNKNOWN], (1, "", "Traceback\nrequests.ConnectionError: no such host")])
def test_a_service_that_does_not_answer_is_said_in_one_line(tmp_path, answer):
    code, lines, asked = told(tmp_path, [answer])
    assert code == NOT_AUDITED and len(lines) == len(asked) == 1 and "nothing is audited" in lines[0]
    assert "no such host" in lines[0] or "it knows no package" in lines[0]
    assert told(tmp_path, [answer], strict=True)[0] == 1


def test_one_that_stops_answering_is_said(tmp_path):
    answers = [[GOOD], (1, "", "timed out")]
    assert told(tmp_path, answers)[:2] == (NOT_AUDITED, ["not all packages were audited: timed out"])
    assert told(tmp_path, answers, strict=True)[0] == 1


def test_the_first_requirement(tmp_path):
    file = tmp_path / "r.txt"
    file.write_text('# x\n\n-e y\na==1 ; python_version < "4"\nb==2\n')
    assert first_of(file) == 'a==1 ; python_version < "4"'
