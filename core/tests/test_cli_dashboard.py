"""The page of charts: from our own lines, from Spark's, half written, while the run goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli import app
from penstock.cli._charts import thinned
from penstock.cli._dashboard import page, read_run, write_dashboard
from penstock.cli._progress import BatchProgress
from penstock.cli._scales import BYTES, COUNT, DURATION, NUMBER, duration, time_scale
from penstock.errors import BadConfigurationError
from penstock.printable import printable
from suite.hostile import TEXTS

runner = CliRunner()


def line(batch, **fields):
    made = {
        "time": f"2026-01-31T12:{batch // 60:02}:{batch % 60:02}.000Z",
        "batch": batch,
        "rows": 100 * batch,
        "rows_per_second": 250.0 * batch,
        "batch_ms": 400 + batch,
        "commits": batch + 1,
        "lag": {"records": 900 - batch, "orders-0": 400, "orders-1": 500 - batch},
        "metrics": {"transactions_opened": 2 * batch, "transactions_aborted": 1, "bad_rows": 3},
        "pending": {"committables": 0, "parts": batch % 3},
        "event_time": {
            "frontiers": {"orders-0": f"2026-01-01T00:{batch % 60:02}:00.000Z"},
            "held": ["orders-1"],
            "idle": [],
        },
    }
    return json.dumps({**made, **fields})


END = json.dumps(
    {"time": "2026-01-31T13:00:00Z", "state": "failed", "rows": 1, "batches": 1, "commits": 1, "error": "<b>"}
)


def charts(text):
    """Title of each chart → the points of its lines."""
    figures = re.findall(r"<figure><figcaption>(.*?)</figcaption>.*?(<svg.*?</svg>)", text, re.S)
    return {
        re.sub("<[^>]*>", "", re.sub("<em>.*</em>", "", title)): [
            [tuple(map(float, point.split(","))) for point in drawn.get("points").split()]
            for drawn in ET.fromstring(svg).iter("polyline")
        ]
        for title, svg in figures
    }


def test_what_is_in_the_lines_is_on_the_page():
    text = page(read_run([line(n) for n in range(1, 9)] + [END]), "orders.jsonl")
    drawn = charts(text)
    assert set(drawn) == {
        *("Throughput rows/s", "Batch time", "Waiting at the sources records", "Waiting by split"),
        *("Event time reached by split UTC", "Commits and transactions of this run"),
        "Pending at the sink",
    }
    assert len(drawn["Commits and transactions of this run"]) == 3 and len(drawn["Pending at the sink"]) == 2
    assert "<dt>transactions aborted</dt><dd>1</dd>" in text
    throughput = drawn["Throughput rows/s"][0]
    assert len(throughput) == 7 and all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(throughput))
    assert len(drawn["Waiting by split"]) == 2
    assert "<dd>failed</dd>" in text and "<dd>3,600</dd>" in text and "&lt;b&gt;" in text and "<b>" not in text
    assert "<dt>bad rows</dt><dd>3</dd>" in text and "<dt>held splits</dt><dd>orders-1</dd>" in text
    assert "http" not in text.replace("http-equiv", ""), "the page needs nothing from elsewhere"


def test_the_browser_runs_nothing_and_fetches_nothing():
    text = page(read_run([line(1)]), "orders.jsonl")
    policy = re.search(r'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    assert policy is not None and policy[1].startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script" not in text and not re.search(r"(src|href)=", text)


class Tags(HTMLParser):
    """The elements of a page with their attributes, and the texts in them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, *(name for name, _ in attributes)))
        self.texts += [value for _, value in attributes]

    def handle_endtag(self, tag):
        self.tags.append(f"/{tag}")

    def handle_data(self, data):
        self.texts.append(data)


def left_open(checkpoint, decisions=0, pieces=1):
    return {"checkpoint": checkpoint, "decisions": decisions, "pieces": pieces, "command": "rm -rf /"}


def page_full_of(text):
    """A page on which every text, of the lines and around them, is ``text``."""
    one = {"time": "2026-01-31T12:00:00Z", "batch": 1, "rows": 1, "rows_per_second": 1, "batch_ms": 1, "commits": 1}
    times = {text: "2026-01-31T12:00:00Z", f"{text}2": "2026-01-31T12:00:00Z"}
    one |= {"lag": {text: 1, f"{text}-0": 2, f"{text}-1": 2}, "metrics": {text: 1, "bad_rows": 1}}
    one |= {"event_time": {"frontiers": times, "held": [text], "idle": [text]}}
    return page(
        read_run([json.dumps(one), json.dumps({"state": text, "error": text, "open": [left_open(text)]})]), text
    )


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_of_the_lines_is_more_than_text(text):
    usual, made = Tags(page_full_of("x")), Tags(page_full_of(text))
    assert made.tags == usual.tags
    assert sum(printable(text) in one for one in made.texts) >= 10
    assert printable(page_full_of(text), lines=True) == page_full_of(text)


def test_what_the_run_has_left_open_is_on_the_page():
    """With the command that publishes it, which is not the file's word."""
    end = {"state": "stopped", "open": [left_open("a b"), left_open("ck/two", 1, 12), left_open("ck/three", 0, 0)]}
    text = page(read_run([line(1), json.dumps(end)]), "x")
    assert re.findall("<div><dt>left open</dt>(.*?)</div>", text) == [
        "<dd>1 open piece holds committed rows that no reader sees yet: restart the query, or run: penstock finish "
        "&#x27;a b&#x27;</dd><dd>1 decision is pending and 12 open pieces hold committed rows that no reader sees yet: "
        "restart the query, or run: penstock finish --take-over ck/two</dd>"
    ]
    assert "left open" not in page(read_run([line(1), json.dumps(end), line(1)]), "x")  # the next run goes on
    assert "left open" not in page(read_run([line(1), json.dumps({"state": "finished", "open": []})]), "x")


@pytest.mark.parametrize("wrong", ["x", 1, {"a": 1}, [1], [None], [{}], [left_open(1)], [left_open("ck", "1")]])
def test_a_last_line_that_leaves_something_else_open_is_refused(wrong):
    lines = [line(1), json.dumps({"state": "stopped", "open": wrong}), line(1)]
    with pytest.raises(BadConfigurationError, match="line 2: neither"):
        read_run(lines)


WHERE = ["time", "rows", "rows_per_second", "batch_ms", "lag", "metrics", "held", "frontiers"]


@pytest.mark.parametrize("wrong", ["x", None, True, [1], {"a": 1}, "NaN", "Infinity", "-1e999", "<script>"])
@pytest.mark.parametrize("where", WHERE)
def test_a_line_with_something_else_in_it_is_refused_or_drawn(where, wrong):
    """The file may come from anywhere: no value of a line makes the command fail in another way."""
    value = json.loads(line(1))
    if where in ("held", "frontiers"):
        value["event_time"] = {where: wrong}
    elif where in ("lag", "metrics"):
        value[where] = {"x": wrong}
    else:
        value[where] = wrong
    text = json.dumps(value)
    if wrong in ("NaN", "Infinity", "-1e999"):
        text = text.replace(f'"{wrong}"', wrong)
    with contextlib.suppress(BadConfigurationError):
        Tags(page(read_run([line(1), text, line(2)], "progress.jsonl"), "x"))


def test_spark_progress_is_taken_too():
    spark = {
        "timestamp": "2026-01-31T12:00:00.123Z",
        "batchId": 7,
        "batchDuration": 250,
        "numInputRows": 1000,
        "sources": [{"latestOffset": '{"backlog": {"files": 3}}', "metrics": {}}],
    }
    run = read_run([json.dumps(spark), json.dumps({**spark, "numInputRows": 0}), json.dumps({**spark, "batchId": 8})])
    assert [batch.batch for batch in run.batches] == [7, 8]
    assert charts(page(run, "p"))["Waiting at the sources files"]


def test_many_batches_are_thinned_and_peaks_stay():
    lines = [
        line(
            n % 50,
            rows_per_second=9e6 if n == 777 else 5.0,
            time=f"2026-01-31T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z",
        )
        for n in range(5000)
    ]
    text = page(read_run(lines), "p")
    assert len(charts(text)["Throughput rows/s"][0]) <= 500 and "9M" in text


def test_a_half_written_last_line_is_left_out_and_another_is_told():
    assert len(read_run([line(1), line(2)[:30]]).batches) == 1
    with pytest.raises(BadConfigurationError, match=r"run\.jsonl, line 2: neither"):
        read_run([line(1), line(2)[:30], line(3)], "run.jsonl")
    with pytest.raises(BadConfigurationError, match="line 1: neither"):
        read_run(["id,name"])


def test_the_command(tmp_path):
    (tmp_path / "run.jsonl").write_text(line(1) + "\n" + END)
    done = runner.invoke(app, ["dashboard", str(tmp_path / "run.jsonl"), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0 and done.stdout.strip() == (tmp_path / "page.html").as_uri()
    assert charts((tmp_path / "page.html").read_text("utf-8"))
    done = runner.invoke(app, ["dashboard", str(tmp_path / "none")])
    assert isinstance(done.exception, BadConfigurationError) and done.stdout == "", "there is no page to open"


def test_a_run_that_goes_on_is_watched_to_its_end(tmp_path, monkeypatch):
    source, target = tmp_path / "run.jsonl", tmp_path / "page.html"
    source.write_text("")
    shown = []

    def goes_on(seconds):
        assert seconds == 3
        shown.append(target.read_text("utf-8"))
        with source.open("a") as file:
            file.write((line(1) if len(shown) == 1 else END) + "\n")

    monkeypatch.setattr("penstock.cli._dashboard.time", SimpleNamespace(sleep=goes_on))
    write_dashboard(source, target, watch=True, interval_s=3)
    assert len(shown) == 2 and all('http-equiv="refresh"' in page for page in shown)
    assert "No batch has ended yet" in shown[0] and "Throughput" in shown[1]
    assert "Throughput" in target.read_text("utf-8") and 'http-equiv="refresh"' not in target.read_text("utf-8")


def test_several_queries_of_one_run():
    """Each has its line, and the commits of all are added up."""
    batches = [
        BatchProgress("2026-01-31T12:00:00Z", number, 10, 40.0, 250, number + 1, query=query)
        for number in range(2)
        for query in ("rows", "counts")
    ]
    drawn = page(read_run([one.to_json() for one in batches]), "p")
    assert "<dt>commits</dt><dd>4</dd>" in drawn and "commits of counts" in drawn
    assert drawn.count("</i>rows <strong>") == 2


def test_only_the_last_run_of_a_file_is_shown_and_the_page_says_so():
    run = read_run([line(1), END, line(5), line(6)])
    assert [batch.batch for batch in run.batches] == [5, 6] and not run.state and run.earlier == 1
    assert "1 earlier run in this file not shown" in page(run, "p")


def test_the_title_is_the_name_of_the_pipeline_or_query():
    assert "<h1>run</h1>" in page(read_run([line(1)]), "run")
    assert "<h1>copy</h1>" in page(read_run([line(1, pipeline="copy")]), "run")
    spark = {"timestamp": "2026-01-31T12:00:00Z", "batchId": 7, "batchDuration": 2, "numInputRows": 1, "sources": []}
    assert "<h1>windows</h1>" in page(read_run([json.dumps(spark | {"name": "windows"})]), "run")


def test_the_first_batch_does_not_set_the_scale():
    lines = [line(0, batch_ms=50_600), *(line(n, batch_ms=400) for n in range(1, 20))]
    text = page(read_run(lines), "p")
    assert "first batch 50.6 s, above the scale" in text and ">400 ms</span>" in text and ">40 s<" not in text
    assert "above the scale" not in page(read_run(lines[:1]), "p") and ">60 s<" in page(read_run(lines[:1]), "p")


def test_many_splits_are_their_range_their_median_and_the_worst():
    lag = {f"orders-{n}": 10 * n for n in range(200)}
    frontiers = {f"orders-{n}": f"2026-01-01T00:{n % 60:02}:{n // 60:02}Z" for n in range(200)}
    lines = [line(n, lag=lag, event_time={"frontiers": frontiers}) for n in range(3)]
    text = page(read_run(lines), "p")
    assert len(charts(text)["Waiting by split"]) == 4 and text.count("<polygon ") == 2
    assert (
        "all 200, lowest to highest" in text
        and "</i>orders-199 <strong>1.99k</strong>" in text
        and "</i>median" in text
    )
    assert "</i>orders-0 <strong>2026-01-01 00:00:00</strong>" in text


def test_all_charts_share_one_time_axis():
    text = page(read_run([line(n, pending={"parts": 1} if n > 30 else {}) for n in range(60)]), "p")
    axes = re.findall(r'<div class="x">(.*?)</div>', text)
    assert len(axes) == len(charts(text)) and len(set(axes)) == 1 and ">12:00:30<" in axes[0]


@given(
    low=st.floats(-1e30, 1e30),
    high=st.floats(-1e30, 1e30),
    kind=st.sampled_from([NUMBER, COUNT, BYTES, DURATION]),
)
@example(low=0, high=1e-300, kind=NUMBER)
@example(low=1e30, high=1e30, kind=COUNT)
def test_marks_are_round_and_cover_the_values(low, high, kind):
    low, high = sorted((low, high))
    scale = kind.scale(low, high)
    places = [place for place, _ in scale.marks]
    slack = 1e-8 * (max(abs(low), abs(high)) + places[1] - places[0])
    assert scale.low <= low + slack and scale.high >= high - slack and 2 <= len(places) <= 8
    assert all(0 <= scale.share(value) <= 1 for value in (low, high))
    step = (places[-1] - places[0]) / (len(places) - 1) / kind.unit(max(abs(low), abs(high)))
    if high - low > 1e-6 * max(abs(low), abs(high)) and high - low > 1e-290:
        mantissa = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
        assert min(abs(mantissa - one) for one in (1, 2, 5, 10)) < 1e-6
    assert kind is not COUNT or step >= 1


@given(first=st.floats(-6e10, 2.5e11), span=st.floats(0, 1e10))
def test_times_of_day_are_round(first, span):
    scale = time_scale(first, first + span)
    assert scale.low <= first and scale.high >= first + span and len(scale.marks) <= 7
    places = [place for place, _ in scale.marks]
    assert all(scale.low <= place <= scale.high for place in places)
    steps = {b - a for a, b in itertools.pairwise(places)}
    assert len(steps) <= 1 and all(place % step == 0 for place in places for step in steps)


@pytest.mark.parametrize(("value", "written"), [(0.4, "0.4 ms"), (380, "380 ms"), (50_600, "50.6 s"), (3e5, "5 min")])
def test_units_fit(value, written):
    assert duration(value) == written


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e9, 1e9)), min_size=1, max_size=3000))
def test_a_thinned_line_keeps_its_ends_and_is_short(points):
    points = sorted(points)
    kept = thinned(points, time_scale(0, 1e6))
    assert set(kept) <= set(points) and len(kept) <= 2 * 241
    assert min(value for _, value in kept) == min(value for _, value in points)
    assert max(value for _, value in kept) == max(value for _, value in points)


@pytest.mark.parametrize(("batches", "splits"), [(10_000, 4), (150, 200)])
def test_a_long_run_and_many_partitions_make_a_small_page(batches, splits):
    lag = {f"orders-{n}": n for n in range(splits)}
    one = json.loads(line(1, lag=lag, event_time={"idle": list(lag)}))
    began = datetime(2026, 1, 31, tzinfo=timezone.utc)
    lines = (
        json.dumps(one | {"time": (began + timedelta(seconds=5 * n)).isoformat(), "batch_ms": n % 700})
        for n in range(batches)
    )
    assert len(page(read_run(lines), "p")) < 250_000


@pytest.mark.parametrize("place", ["/", "."])
def test_a_directory_in_place_of_the_page_is_named(tmp_path, place):
    (tmp_path / "run.jsonl").write_text(END + "\n")
    with pytest.raises(IsADirectoryError, match=f"'{place}'"):
        write_dashboard(tmp_path / "run.jsonl", Path(place), watch=False)


def test_a_device_is_written_to_and_stays(tmp_path):
    (tmp_path / "run.jsonl").write_text(END + "\n")
    (tmp_path / "out").symlink_to("/dev/null")
    write_dashboard(tmp_path / "run.jsonl", tmp_path / "out", watch=False)
    assert (tmp_path / "out").is_char_device()
