"""``scripts/bench --compare``: what is called slower, and both commits really run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import comparing
from benchmarks.comparing import compare
from benchmarks.measuring import OURS, THEIRS, Measurement


def rounds(ours, theirs=None, better="more", name="read"):
    theirs = theirs or [100.0] * len(ours)
    return [
        {name: Measurement(name, "rows/s", better, {OURS: [own], THEIRS: [other]})}
        for own, other in zip(ours, theirs, strict=True)
    ]


def verdict(now, before):
    (one,) = compare(now, before)
    return one.verdict


def test_what_is_slower():
    assert verdict(rounds([80, 81, 82]), rounds([100, 100, 100])) == "slower"
    assert verdict(rounds([80, 81, 101]), rounds([100, 100, 100])) == "", "not in every round"
    assert verdict(rounds([98, 98, 98]), rounds([100, 100, 100])) == "", "too little"
    assert verdict(rounds([120] * 3), rounds([100] * 3)) == "faster"
    assert verdict(rounds([80] * 3, better="less"), rounds([100] * 3, better="less")) == "faster"
    assert verdict(rounds([80] * 3, [75] * 3), rounds([100] * 3)) == "", "Spark's own got slower too: the machine did"
    assert verdict(rounds([80] * 3, [97] * 3), rounds([100] * 3)) == "slower"


def test_without_a_control_the_noise_is_that_of_the_others():
    def with_state(found, value):
        return [{**one, "state": Measurement("state", "kB", "less", {OURS: [value]})} for one in found]

    _, state = compare(with_state(rounds([100], [50]), 230.0), with_state(rounds([100]), 200.0))
    assert state.noise == pytest.approx(1.0) and state.verdict == ""
    _, state = compare(with_state(rounds([100]), 230.0), with_state(rounds([100]), 200.0))
    assert state.verdict == "slower"


VALUES = st.lists(st.floats(1, 1e6), min_size=3, max_size=3)


@given(VALUES, VALUES, VALUES, VALUES, st.sampled_from(["more", "less"]))
def test_either_side_can_be_the_other(now, before, control, other, better):
    (one,) = compare(rounds(now, control, better), rounds(before, other, better))
    (turned,) = compare(rounds(before, other, better), rounds(now, control, better))
    opposite = {"slower": "faster", "faster": "slower", "": ""}
    assert turned.verdict == opposite[one.verdict] and turned.noise == pytest.approx(one.noise)


@given(VALUES, VALUES)
def test_a_commit_is_not_slower_than_itself(values, control):
    assert verdict(rounds(values, control), rounds(values, control)) == ""


BENCHMARK = """
import json, sys
from pathlib import Path
root = Path(__file__).resolve().parents[1]
value = float((root / "speed").read_text())
one = {"name": "read", "unit": "rows/s", "better": "more", "values": {"penstock": [value], "spark": [7.0]}, "note": ""}
(root / ".cache").mkdir(exist_ok=True)
(root / ".cache" / "bench-read-quick.json").write_text(json.dumps({"read": {"measurements": [one]}}))
(root / "ran").write_text(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    for name, text in {
        "speed": "100",
        "benchmarks/read.py": BENCHMARK,
        ".gitignore": ".cache\n.venv\nran\n",
        "scripts/setup": f"#!/bin/sh\nmkdir -p .venv/bin && ln -sf {sys.executable} .venv/bin/python\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "scripts/setup").chmod(0o755)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    subprocess.run([root / "scripts/setup"], cwd=root, check=True)
    return root


def test_the_working_tree_beside_a_commit(repository, capsys):
    (repository / "speed").write_text("50")
    assert comparing.run(repository, ["read", "--compare", "HEAD", "--rounds", "2", "--only", "x"]) == 1
    out = capsys.readouterr().out
    assert "| read | rows/s | 50 | 100 | 0.50 × (0.50–0.50) | 0% | **slower** |" in out
    (there,) = (repository / ".cache/compare").iterdir()
    assert json.loads((Path(there) / "ran").read_text()) == ["--quick", "--only", "x"]
    (repository / "speed").write_text("100")
    assert comparing.run(repository, ["read", "--compare", "HEAD", "--rounds", "1"]) == 0
    assert capsys.readouterr().out.endswith("nothing\n")


def test_both_sides_run_the_benchmark_of_the_working_tree(repository, capsys):
    (repository / "benchmarks/read.py").write_text(BENCHMARK.replace('"read"', '"read again"', 1))
    assert comparing.run(repository, ["read", "--compare", "HEAD", "--rounds", "1"]) == 0
    assert "| read again |" in capsys.readouterr().out


def test_what_can_not_be_compared(repository):
    with pytest.raises(SystemExit, match="no such commit"):
        comparing.run(repository, ["read", "--compare", "none"])
    (repository / "benchmarks/read.py").write_text("raise ValueError")
    with pytest.raises(SystemExit, match=r"read --quick failed in .* \(exit code 1\)"):
        comparing.run(repository, ["read", "--compare", "HEAD"])
