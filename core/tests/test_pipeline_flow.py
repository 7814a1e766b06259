"""Several sources, views and sinks in a pipeline file: what is refused before Spark starts, and where it stands."""

from __future__ import annotations

import pytest

from penstock.cli._check import check_pipeline
from penstock.cli._check_flow import tables_of
from penstock.cli._pipeline import Commit
from penstock.cli._queries import planned_queries
from penstock.cli._run import _flow
from penstock.connector import Connector
from penstock.options import Option, OptionSet

GOOD = """\
sources:
  orders:
    format: penstock.filesystem
    schema: id long, customer long
    options: {path: in, format: json}
  customers:
    format: penstock.filesystem
    read: batch
    options: {path: table, format: parquet}
views:
  named: SELECT * FROM orders JOIN customers USING (customer)
  large:
    sql: SELECT id, at FROM named WHERE amount > 100
    watermark: {column: at, delay: 10 minutes}
sinks:
  files:
    from: named
    format: penstock.filesystem
    options: {path: out/files}
  topic:
    format: penstock.kafka
    options:
      topic: large
      kafka.bootstrap.servers: localhost:9092
      delivery: exactly-once
checkpoint: ck
"""

pytest.importorskip("penstock_filesystem")
pytest.importorskip("penstock_kafka")


def mistakes_of(tmp_path, text):
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return [str(mistake) for mistake in check_pipeline(path, {})[1]]


def pipeline_of(tmp_path, text):
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    pipeline, mistakes = check_pipeline(path, {})
    assert pipeline is not None and mistakes == []
    return pipeline


def test_a_good_file(tmp_path):
    pipeline = pipeline_of(tmp_path, GOOD)
    assert [(source.view, source.is_batch) for source in pipeline.sources] == [("orders", False), ("customers", True)]
    assert [(view.name, view.watermark is not None) for view in pipeline.views] == [("named", False), ("large", True)]
    assert [(sink.name, sink.view) for sink in pipeline.sinks] == [("files", "named"), ("topic", "large")]
    assert pipeline.commit is Commit.TOGETHER
    assert _flow(pipeline) == (
        "penstock.filesystem in + penstock.filesystem table",
        "SQL",
        "penstock.filesystem files + penstock.kafka",
    )


def test_the_queries_of_each_way_to_commit(tmp_path):
    root = str(tmp_path)

    def queries(commit):
        pipeline = pipeline_of(tmp_path, f"{GOOD}name: shop\ncommit: {commit}\n")
        return [(one.name, one.checkpoint.removeprefix(root), one.logs) for one in planned_queries(pipeline)]

    assert queries("together") == [("shop", "/ck", ("all",))]
    assert queries("each") == [("shop", "/ck", ("files", "topic"))]
    assert queries("separate") == [("shop-files", "/ck/files", ("",)), ("shop-topic", "/ck/topic", ("",))]


def test_what_a_sink_takes_from_unless_it_says_so(tmp_path):
    one = "source: {format: rate}\nsinks: {a: {format: noop}, b: {format: console}}\ncommit: separate\ncheckpoint: ck\n"
    assert [sink.view for sink in pipeline_of(tmp_path, one).sinks] == ["source", "source"]
    last = one + "views: {first: SELECT * FROM source, second: SELECT * FROM first}\n"
    assert [sink.view for sink in pipeline_of(tmp_path, last).sinks] == ["second", "second"]
    transformed = one + "transform: {sql: SELECT * FROM source}\n"
    assert [sink.view for sink in pipeline_of(tmp_path, transformed).sinks] == ["", ""]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("from: named", "from: namd", "17:11: there is no source and no view 'namd'; did you mean 'named'?"),
        ("from: named", "from: x", "17:11: there is no source and no view 'x'; known: orders, customers, named, large"),
        ("  large:\n", "  orders:\n", "12:3: the name 'orders' is given twice (first in line 2)"),
        ("  large:\n", "  Orders:\n", "12:3: the name 'Orders' is given twice (first in line 2)"),
        ("  large:\n", "  la-rge:\n", "12:3: 'la-rge' can't name a view: letters, digits and underscores only"),
        ("FROM named", "FROM large", "12:3: 'large' uses itself"),
        ("FROM orders", "FROM Large", "11:3: 'named' uses 'large', which stands below it: write that one first"),
        ("sinks:", "  spare: SELECT id FROM orders\nsinks:", "12:3: warning: nothing uses 'large'"),
        ("JOIN customers USING (customer)", "", "6:3: warning: nothing uses 'customers'"),
        ("read: batch", "read: bach", "8:11: 'bach' is not a way to read (stream, batch); did you mean 'batch'?"),
        (
            "read: batch",
            "watermark: {column: at, delay: 1s}\n    read: batch",
            "8:16: only a stream has a watermark, and 'read' is batch: leave it out",
        ),
        (
            "    read: batch\n",
            "",
            "7:5: a stream needs a 'schema' here (DDL, such as: id long, at timestamp)",
        ),
        (
            "{path: table, format: parquet}",
            "{path: table, format: parquet, maxFilesPerTrigger: 2}",
            "9:65: warning: source penstock.filesystem ignores 'maxFilesPerTrigger': it takes effect only in a stream",
        ),
        (
            "  topic:\n    f",
            "  to pic:\n    f",
            "21:5: 'to pic' can't name a sink: up to 64 letters, digits, - and _, ",
        ),
        (
            "delivery: exactly-once",
            "delivery: at-least-once",
            "25:17: sink penstock.kafka commits nothing with delivery=at-least-once: set 'delivery: exactly-once', or "
            "'commit: separate'",
        ),
        (
            "      delivery: exactly-once\n",
            "",
            "21:13: sink penstock.kafka commits nothing with delivery=at-least-once: set 'delivery: exactly-once', or "
            "'commit: separate'",
        ),
        (
            "penstock.kafka\n    options:\n      topic: large\n      kafka.bootstrap.servers: localhost:9092\n"
            "      delivery: exactly-once",
            "parquet\n    options: {path: out/large}",
            "21:13: parquet is not a sink of Penstock: it can't be committed with others; set 'commit: each' or "
            "'separate'",
        ),
        (
            "penstock.kafka\n    options:\n      topic: large\n      kafka.bootstrap.servers: localhost:9092\n"
            "      delivery: exactly-once",
            "penstock.filesystem\n    options: {path: out/files/}",
            "21:5: sink 'topic' writes where sink 'files' writes: give it another target, or join both views with "
            "UNION ALL into one sink",
        ),
        (
            "    from: named\n",
            "    from: named\n    mode: complete\n",
            "18:11: mode 'complete' needs a query of its own: set 'commit: separate'",
        ),
        (
            "    from: named\n",
            "    from: named\n    mode: update\n",
            "18:11: sinks of one query have one mode, and here are append and update: set the same, or "
            "'commit: separate'",
        ),
        ("checkpoint: ck", "checkpoint: ck\ncommit: once", "27:9: 'once' is not a way to commit (together, each, "),
        ("sinks:", "sink: {format: noop}\nsinks:", "17:3: give either 'sink' or 'sinks', not both"),
        ("views:", "transform: {sql: SELECT 1}\nviews:", "12:3: give either 'transform' or 'views', not both"),
        ("    sql: SELECT id", "    sqll: SELECT id", "13:5: unknown key 'sqll' in 'large'; did you mean 'sql'?"),
        (
            "named: SELECT",
            "named: {python: job.py}\n  x: SELECT",
            "11:19: 'job.py' is not an entry point: write module",
        ),
    ],
)
def test_a_mistake_is_reported_where_it_stands(tmp_path, old, new, expected):
    assert old in GOOD
    found = mistakes_of(tmp_path, GOOD.replace(old, new, 1))
    assert any(one.startswith(expected) for one in found), found


def test_sinks_of_other_formats_may_get_a_batch_again(tmp_path):
    text = "source: {format: rate}\nsinks: {a: {format: noop}}\ncommit: each\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, text) == [
        "2:21: warning: noop is not a sink of Penstock: a batch that is run again is written to it again"
    ]
    alone = "source: {format: rate}\nsink: {format: noop}\ncommit: each\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, alone) == [
        "3:9: 'commit' is for several sinks: write 'sinks' in place of 'sink', or leave it out"
    ]


#: Of each connector: what says where it writes, and then the same with another target.
TARGETS = {
    "filesystem": ("{path: a}", "{path: b}"),
    "kafka": (
        "{kafka.bootstrap.servers: s, topic: a, delivery: exactly-once}",
        "{kafka.bootstrap.servers: s, topic: b, delivery: exactly-once}",
    ),
    "cassandra": ("{keyspace: k, table: a}", "{keyspace: k, table: b}"),
    "pravega": ("{stream: s/a, delivery: exactly-once}", "{stream: s/b, delivery: exactly-once}"),
}


@pytest.mark.parametrize("connector", TARGETS)
def test_every_connector_says_where_it_writes(tmp_path, connector):
    pytest.importorskip(f"penstock_{connector}")
    one, other = TARGETS[connector]
    text = "source: {{format: rate}}\nsinks:\n  a: {{format: penstock.{0}, options: {1}}}\n"
    text += "  b: {{format: penstock.{0}, options: {2}}}\ncheckpoint: ck\n"
    assert "4:6: sink 'b' writes where sink 'a' writes" in str(mistakes_of(tmp_path, text.format(connector, one, one)))
    assert mistakes_of(tmp_path, text.format(connector, one, other)) == []


def test_two_kafka_sinks_whose_rows_name_the_topic(tmp_path):
    options = "{kafka.bootstrap.servers: s, delivery: exactly-once}"
    text = f"source: {{format: rate}}\nsinks:\n  a: {{format: penstock.kafka, options: {options}}}\n"
    text += f"  b: {{format: penstock.kafka, options: {options}}}\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, text) == []


def test_two_views_into_one_sink(tmp_path):
    text = "sources: {a: {format: rate}, b: {format: rate}}\nsink:\n  from: [a, b]\n  format: noop\ncheckpoint: ck\n"
    assert mistakes_of(tmp_path, text) == [
        "3:9: a sink takes 'from' one view: join several by a view with UNION ALL, and name that one"
    ]


#: Two spellings of one target, of each connector.
SPELLINGS = [
    *(("filesystem", "{path: out}", f"{{path: '{other}'}}") for other in ("./out", "in/../out", "out/.", "out//")),
    ("filesystem", "{path: out}", "{path: 'file:HERE/out'}"),
    ("filesystem", "{path: out}", "{path: 'file://HERE/out/'}"),
    ("filesystem", "{path: out}", "{path: link/}"),
    ("filesystem", "{path: 's3://b/out'}", "{path: 's3a://b/out/'}"),
    *(
        ("kafka", f"{{kafka.bootstrap.servers: '{one}', topic: t, delivery: exactly-once}}", other)
        for one, other in [
            ("a:1,b:2", "{kafka.bootstrap.servers: 'B:2, a:1', topic: t, delivery: exactly-once}"),
            ("a:1,b:2", "{kafka.bootstrap.servers: 'b:2', topic: t, delivery: exactly-once}"),
        ]
    ),
    ("cassandra", "{host: 'a,b', keyspace: k, table: t}", "{host: b, keyspace: k, table: t}"),
    (
        "pravega",
        "{controller: 'a:1', stream: s/t, delivery: exactly-once}",
        "{controller: 'tcp://A:1', scope: s, stream: t, delivery: exactly-once}",
    ),
]
TWO = (
    "source: {{format: rate}}\nsinks:\n  a: {{format: penstock.{0}, options: {1}}}\n"
    "  b: {{format: penstock.{0}, options: {2}}}\ncheckpoint: ck\n"
)


@pytest.mark.parametrize(("connector", "one", "other"), SPELLINGS)
def test_one_target_in_two_spellings(tmp_path, connector, one, other):
    pytest.importorskip(f"penstock_{connector}")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    text = TWO.format(connector, one, other.replace("HERE", str(tmp_path)))
    assert "4:6: sink 'b' writes where sink 'a' writes" in str(mistakes_of(tmp_path, text))


@pytest.mark.parametrize(
    ("one", "other"),
    [("{path: out}", "{path: OUT}"), ("{path: 's3://b/out'}", "{path: 's3://b/Out'}"), ("{path: out}", "{path: out2}")],
)
def test_targets_whose_names_differ_in_case(tmp_path, one, other):
    pytest.importorskip("penstock_filesystem")
    assert mistakes_of(tmp_path, TWO.format("filesystem", one, other)) == []


def test_a_sink_of_spark_has_the_same_target(tmp_path):
    pytest.importorskip("penstock_filesystem")
    text = TWO.format("filesystem", "{path: out}", "{path: out}").replace(
        "b: {format: penstock.filesystem", "b: {format: json"
    )
    assert "4:6: sink 'b' writes where sink 'a' writes" in str(mistakes_of(tmp_path, text + "commit: separate\n"))


@pytest.mark.parametrize(
    ("one", "other", "outer_and_inner"),
    [
        ("{path: out}", "{path: out/late}", "ab"),
        ("{path: out/a/late}", "{path: ./out}", "ba"),
        ("{path: 's3://b/out/late'}", "{path: 's3a://b/out/'}", "ba"),
        ("{path: out}", "{path: out/_late}", ""),
        ("{path: out/a}", "{path: out/ab}", ""),
    ],
)
def test_a_directory_in_a_directory(tmp_path, one, other, outer_and_inner):
    pytest.importorskip("penstock_filesystem")
    found = mistakes_of(tmp_path, TWO.format("filesystem", one, other))
    if not outer_and_inner:
        assert found == []
        return
    outer, inner = outer_and_inner
    said = f"4:6: warning: sink '{inner}' writes below the directory of sink '{outer}': a reader of that directory"
    assert [text.startswith(said) for text in found] == [True]


FILES = "source: {{format: penstock.filesystem, schema: id long, options: {{path: {0}, format: csv{1}}}}}\n"
TO_FILES = "sink: {{format: penstock.filesystem, options: {{path: {0}, format: csv}}}}\ncheckpoint: {1}\n"
READ_BACK = "2:7: warning: source 'source' reads what the sink writes: rows come back in a later batch"


@pytest.mark.parametrize(
    ("path", "sink", "is_read"),
    [
        ("in", "./in", True),
        ("in/", "in/out", True),
        ("in", "in/_out", False),
        ("in", "in2", False),
        ("in/a", "in", False),
    ],
)
def test_a_directory_that_is_read_back(tmp_path, path, sink, is_read):
    pytest.importorskip("penstock_filesystem")
    found = mistakes_of(tmp_path, FILES.format(path, "") + TO_FILES.format(sink, "ck"))
    assert [one.startswith(READ_BACK) for one in found] == [True] * is_read


@pytest.mark.parametrize(
    ("checkpoint", "option", "is_read"),
    [
        ("in", "", True),
        ("in/ck", "", True),
        ("in/_ck", "", False),
        ("in/ck", ", pathGlobFilter: '*.csv'", False),
        ("in/ck", ", recursiveFileLookup: false", False),
    ],
)
def test_a_checkpoint_is_not_read_as_rows(tmp_path, checkpoint, option, is_read):
    pytest.importorskip("penstock_filesystem")
    found = mistakes_of(tmp_path, FILES.format("in", option) + TO_FILES.format("out", checkpoint))
    assert [one.startswith("3:13: the checkpoint is where source 'source' reads") for one in found] == [True] * is_read


@pytest.mark.parametrize(
    ("sink", "checkpoint", "said"),
    [
        ("ck", "ck", "2:7: the sink writes into the checkpoint"),
        ("./ck/_out", "ck/", "2:7: the sink writes into the checkpoint"),
        ("out", "out/ck", "3:13: warning: the checkpoint is below the directory of the sink"),
        ("out", "out/_ck", ""),
        ("ck2", "ck", ""),
    ],
)
def test_sink_and_checkpoint_have_directories_of_their_own(tmp_path, sink, checkpoint, said):
    pytest.importorskip("penstock_filesystem")
    found = mistakes_of(tmp_path, FILES.format("in", "") + TO_FILES.format(sink, checkpoint))
    assert [one.startswith(said) for one in found] == [True] * bool(said)


def test_a_table_that_may_be_a_slip(tmp_path):
    (found,) = mistakes_of(tmp_path, GOOD.replace("FROM orders JOIN", "FROM orders JOIN custmers JOIN"))
    assert found == (
        "11:10: warning: 'custmers' is no source and no view above it, only a table of Spark's; "
        "did you mean 'customers'?"
    )
    assert mistakes_of(tmp_path, GOOD.replace("FROM orders JOIN", "FROM orders JOIN catalogued JOIN")) == []


@pytest.mark.parametrize("topics", ["t", "s,t"])
def test_a_topic_that_is_read_back(tmp_path, topics):
    pytest.importorskip("penstock_kafka")
    text = (
        f"source: {{format: penstock.kafka, options: {{kafka.bootstrap.servers: 'a:1,b:2', subscribe: '{topics}'}}}}\n"
    )
    text += "sink: {format: penstock.kafka, options: {kafka.bootstrap.servers: 'b:2', topic: t}}\ncheckpoint: ck\n"
    (found,) = [one for one in mistakes_of(tmp_path, text) if "reads what" in one]
    assert found.startswith(READ_BACK)
    other = text.replace("topic: t", "topic: u")
    assert not [one for one in mistakes_of(tmp_path, other) if "reads what" in one]


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a JOIN `b` ON a.x = b.x", {"a", "b"}),
        ("WITH c AS (SELECT * FROM A), d (x) AS (SELECT 1) SELECT * FROM c CROSS JOIN d", {"a"}),
        ("SELECT extract(DAY FROM later), trim(BOTH ' ' FROM later) FROM a", {"a"}),
        ("SELECT x IS DISTINCT FROM later FROM a -- FROM later", {"a"}),
        ("SELECT 'FROM later' /* JOIN later */ FROM a", {"a"}),
        ("SELECT * FROM db.later, range(3)", set()),
        ("SELECT * FROM (SELECT * FROM a) JOIN range(3)", {"a"}),
    ],
)
def test_tables_that_a_query_names(sql, tables):
    assert tables_of(sql) == tables


def test_a_connector_names_its_target_by_options_that_it_has():
    with pytest.raises(TypeError, match=r"Lost\.target_options: the sink has no option 'pth'"):
        type("Lost", (Connector,), {"sink_options": OptionSet([Option("path", "Where")]), "target_options": ("pth",)})
