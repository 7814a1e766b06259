"""The smoke test of ``scripts/compat`` itself, and the page that it writes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from compat.environments import Missing, _requirements, java_home, versions
from compat.results import PAGE, Results
from compat.smoke import AT_LEAST_ONCE, EXACTLY_ONCE, READ, WORKS, Result, smoke
from compat.subjects import NOT_RUN, SUBJECTS, Environment, Server
from harness.driver import Driver
from matrix.systems import FileSystem, row_of

FORGETFUL = "files that lose a row"


class Forgetful(FileSystem):
    """A sink whose readers miss a row."""

    name = FORGETFUL

    def rows(self, place):
        found = super().rows(place)
        del found[next(iter(found), None)]
        return found


@pytest.mark.exhaustive("a tool of its own, which starts three drivers")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_smoke_test_sees_what_works_and_what_does_not(tmp_path):
    started: list[Driver] = []

    def start(job, fault="", **arguments):
        started.append(Driver(Path(arguments["spec"]).parent, job, arguments, fault))
        return started[-1]

    (tmp_path / "files").mkdir()
    files, forgetful = FileSystem(tmp_path / "files"), Forgetful(tmp_path / "files")
    try:
        found = list(smoke([(files, files), (files, forgetful)], tmp_path, start))
        assert len(started) == 3 and started[1].was_hit()
    finally:
        for driver in started:
            driver.close()
    assert Result("files", EXACTLY_ONCE, WORKS) in found
    (wrong,) = [one.words for one in found if one.system == FORGETFUL]
    assert ": lost 1 [" in wrong


@pytest.mark.parametrize(
    ("status", "hit", "wrong"), [(1, True, "the job failed: "), (0, False, "the driver ended before")]
)
def test_right_rows_hide_no_failure(tmp_path, status, hit, wrong):
    """A driver that fails as a whole, and one that was never killed: the rows alone would say that all is well."""

    class Ended:
        def wait(self, timeout):
            return status

        def was_hit(self):
            return hit

        def tail(self, lines):
            return "ValueError: wrong"

    class Copied(FileSystem):
        def rows(self, place):
            return Counter(map(row_of, range(counts[0])))

    counts = [0]

    class Fed(FileSystem):
        def feed(self, place, ids):
            counts[0] = ids.stop

    (tmp_path / "files").mkdir()
    pair = (Fed(tmp_path / "files"), Copied(tmp_path / "files"))
    found = list(smoke([pair], tmp_path, lambda *_, **__: Ended()))
    assert [one.words for one in found if one.kind == EXACTLY_ONCE][-1].startswith(wrong)


def test_the_page_shows_the_results():
    text = PAGE.read_text("utf-8")
    assert Results().page(text) == text, "write it again: scripts/compat --page"
    for row in (*SUBJECTS, *NOT_RUN):
        assert f"| {row.title} |" in text


def test_results_are_of_known_subjects():
    known = json.loads((PAGE.parents[1] / "integration-tests/compat/results.json").read_text("utf-8"))
    assert known and known.keys() <= {subject.name for subject in SUBJECTS}
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


def test_what_went_wrong_is_in_its_cell(tmp_path):
    results = Results(tmp_path / "results.json")
    broker = next(one for one in SUBJECTS if isinstance(one, Server) and one.system == "kafka")
    works = [Result("kafka", kind, WORKS) for kind in (READ, AT_LEAST_ONCE)]
    results.add(broker, {}, [*works, Result("kafka", EXACTLY_ONCE, "refused: a|b")])
    page = Results(tmp_path / "results.json").page("<!-- compatibility: kafka -->\n<!-- /compatibility -->")
    assert f"| {broker.title} | works | works | refused: a\\|b | 20" in page
    assert results.problems(broker) == [f"{broker.name}: kafka, exactly once: refused: a|b"]
    assert " not run | not run |" in page


def test_an_environment_is_described_by_its_versions():
    assert versions(Path(sys.executable))["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"pyspark", "pyarrow", "confluent-kafka"} <= versions(Path(sys.executable)).keys()


def test_a_java_is_looked_for_by_its_version(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME_99", str(tmp_path))
    with pytest.raises(Missing, match="no Java 99: install it, or set JAVA_HOME_99 to its directory"):
        java_home("99")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"99.0.1\" 2050-01-01' >&2\n")
    java.chmod(0o755)
    assert java_home("99") == tmp_path


def test_an_environment_names_all_that_the_packages_need():
    wanted = list(
        _requirements(Environment("one", "one", instead={"cassandra-driver": "scylla-driver"}, pins=("a==1",)))
    )
    assert "scylla-driver" in wanted and wanted[-1] == "a==1"
    assert not [text for text in wanted if text.startswith(("penstock", "cassandra-driver"))]
    assert [text for text in wanted if text.startswith("pyspark")]
