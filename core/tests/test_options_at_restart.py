"""A query that continues from its checkpoint with other options: what takes effect, what is kept, what is refused.

A restart is a new reader that gets the offset, as the text that Spark stores, of the one before.
"""

from __future__ import annotations

import base64
import json
import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from penstock._plugins import find_connector
from penstock.checkpoint import open_stored_query, remember_sink, stored_sink_of
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError, FatalError
from penstock.options import Option, OptionSet, held_by_checkpoint, when
from penstock.options import _set as option_set
from penstock.source import SplitEnumerator
from penstock.source.log import Earliest, LogPartition, LogState, SpecificOffsets
from penstock.spark._offsets import StreamOffset
from penstock.spark._read import StreamReader
from penstock.storage import LocalStorage
from penstock.testing._samples.source import LinesConnector
from penstock.testing._spark_engine import SparkSourceQuery
from penstock.testing._spark_source import data_source

GOLDEN = Path(__file__).parent / "golden"
A0 = LogPartition("a", 0)
DECLARED = OptionSet(
    [
        Option("shelf", "Refused", default="top", at_restart="refused"),
        Option("start", "Kept", at_restart="kept"),
        Option("size", "Kept", "bytes", "1mb", at_restart="kept"),
        Option("place", "Kept", at_restart="kept", words=("head", "tail"), choice_aliases=(("latest", "tail"),)),
        Option("end", "Kept once set", "int", at_restart="kept once set"),
        Option("endTime", "Kept once set", "int", at_restart="kept once set"),
        Option("limit", "Takes effect", "int"),
        Option("password", "Takes effect", secret=True),
    ]
)


@pytest.fixture(autouse=True)
def warned(monkeypatch):
    """A process that has warned of nothing yet."""
    monkeypatch.setattr(option_set, "_warned", set())


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "penstock.options")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("penstock.options")]


def after(before, **given):
    return held_by_checkpoint(DECLARED.parse(given, owner="source t"), before, owner="source t")


# --- what is compared, and what is held -------------------------------------------------------------------------------


def test_only_what_a_restart_must_compare_is_held_and_no_secret(said):
    first = after(None, start="x", limit="3", password="hunter2", SHELF="low")
    assert first == {"start": "x", "shelf": "low"} and after(None) == {}
    assert after(first, start="x", limit="4", password="other", shelf="low") == first
    assert said() == []
    plain = OptionSet([Option("limit", "")]).parse({"limit": "3"}, owner="t")
    assert held_by_checkpoint(plain, None, owner="t") is None, "costs nothing where nothing is declared"


def test_what_is_kept_warns_once_and_stays_over_several_restarts(said):
    first = after(None, start="x")
    for _ in range(2):
        assert after(first, start="y") == first
    assert said() == [
        "source t: option 'start' was 'x' before and is 'y' now, which changes nothing of what the checkpoint holds: "
        "set it back, or start with a new checkpoint"
    ]
    assert after(first) == first and after({}, start="z") == {}
    assert len(said()) == 2 and "'start' was not set before and is 'z' now" in said()[1]


@pytest.mark.parametrize(
    ("before", "now"), [({"shelf": "low"}, {}), ({}, {"shelf": "low"}), ({"shelf": "a"}, {"shelf": "b"})]
)
def test_what_is_refused_names_both_values(before, now):
    with pytest.raises(
        BadConfigurationError, match=r"^source t: option 'shelf' was .* and a query can't continue"
    ) as caught:
        after(after(None, **before), **now)
    for side, word in ((before, "was"), (now, "is")):
        shown = repr(side["shelf"]) if side else "not set"
        assert f"{word} {shown}" in str(caught.value) and "set it back, or start with a new" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"size": "1mb"}, {"size": "1024 kb"}),
        ({}, {"size": "1m", "shelf": "top"}),
        ({"shelf": "top"}, {}),
        ({"start": '{"a": 1}'}, {"start": ' {"a":  1}'}),
        ({"start": "x" * 1000}, {"start": "x" * 1000}),
        ({"place": "Head"}, {"place": " head "}),
        ({"place": "Latest"}, {"place": "TAIL"}),
        ({"place": '{"a": ["Head", {"b": "latest"}]}'}, {"place": '{"a": ["head", {"b": "tail"}]}'}),
    ],
)
def test_one_value_may_be_written_in_several_ways(before, now, said):
    after(after(None, **before), **now)
    assert said() == []


def test_an_end_may_be_added_and_taken_away_but_not_moved(said):
    assert after({}, end="5") == {"end": "5"} and after({"end": "5"}) == {} and said() == []
    assert after({"end": "5"}, end="6") == {"end": "5"}
    assert after({"end": "5"}, endTime="9") == {"end": "5"}, "another way to say where it ends"
    assert after({"end": "5", "endTime": "9"}, end="5") == {"end": "5", "endTime": "9"}
    assert ["'end' was '5' before and is '6' now" in said()[0], "'endTime' was not set" in said()[1]] == [True, True]
    assert len(said()) == 2


def test_long_values_are_shortened_and_still_compared(said):
    first = after(None, start="x" * 10_000 + "1")
    assert len(json.dumps(first)) < 200
    assert after(first, start="x" * 10_000 + "1") == first and said() == []
    assert after(first, start="x" * 10_000 + "2") == first
    (message,) = said()
    assert len(message) < 500 and message.count("(sha256 ") == 2


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        ("name = 'a  b'", "name = 'a b'", False),
        ('"a  b" = 1', '"a b" = 1', False),
        ("name =  'a  b' ", "name = 'a  b'", True),
        ('{"t":{"0":1},"u":2}', '{"u": 2, "t": {"0": 1}}', True),
        ('{"t":{"0":1}}', '{"t":{"0":2}}', False),
        ("", None, True),
        (None, " ", True),
    ],
)
def test_texts_are_compared_by_what_they_say(before, now, is_same):
    declared = OptionSet([Option("query", "Refused", at_restart="refused")])
    first, second = (
        declared.parse({} if text is None else {"query": text}, owner="source t") for text in (before, now)
    )
    held = held_by_checkpoint(first, None, owner="source t")
    if is_same:
        held_by_checkpoint(second, held, owner="source t")
        return
    with pytest.raises(BadConfigurationError, match="a query can't continue with another value"):
        held_by_checkpoint(second, held, owner="source t")


def test_an_option_that_takes_the_value_of_another_one_is_compared_with_it():
    declared = OptionSet(
        [
            Option("place", "Takes effect"),
            Option("notes", "Refused", default_from="place", needs=(when("log"),), at_restart="refused"),
            Option("log", "Takes effect", "bool", "false"),
        ]
    )

    def run(before, **given):
        values = declared.parse(given, owner="sink t")
        held_by_checkpoint(values, before, owner="sink t")
        return values.texts(secrets=False)

    first = run(None, place="a", log="true")
    with pytest.raises(BadConfigurationError, match="option 'notes' was 'a' before and is 'b' now"):
        run(first, place="b", log="true")
    moved = run(first, place="b", notes="a", log="true")
    run(moved, place="a", log="true")
    without = run(first, place="b")
    run(without, place="c", log="true")


def test_what_an_earlier_release_allowed_is_compared_as_text():
    assert after({"end": "the day after"}, end="5") == {"end": "the day after"}
    assert after({"gone": "x", "start": "y"}, start="y") == {"start": "y"}


@pytest.mark.parametrize("wrong", [{"secret": True}, {"name": "x.*"}])
def test_what_can_not_be_held_can_not_be_declared(wrong):
    with pytest.raises(ValueError, match="is kept at a restart: no secret or prefix can be"):
        OptionSet([Option(**{"name": "x", "doc": "", "at_restart": "kept", **wrong})])


def test_the_page_says_it():
    rules = {option.name: option.rules() for option in DECLARED}
    assert rules["shelf"] == ["A restart with another value is refused"] and rules["limit"] == []
    assert rules["start"] == ["A restart keeps the first value"]
    assert rules["end"] == ["A restart keeps the value once one is set"]
    assert rules["place"][1:] == ["Without regard to case: head, tail", "Also latest for tail"]


# --- a source of anyone's ---------------------------------------------------------------------------------------------


class LogConnector(Connector):
    """Of a third party: it declares, and does nothing else."""

    summary = "A log in memory"
    capabilities = frozenset({Capability.STREAM_READ})
    source_options = DECLARED
    log = None

    def create_source(self, options):
        stop = None if options["end"] is None else SpecificOffsets({A0: options["end"]})
        source = self.log.source(start=Earliest(), stop=stop)
        source.validate_schema = lambda schema: None
        return source

    def describe_guarantee(self):
        return "none"


@pytest.fixture
def restart(log, monkeypatch):
    monkeypatch.setattr(LogConnector, "log", log)
    log.make("a", 10)
    readers = []

    def start(**given):
        schema = StructType().add("n", LongType())
        readers.append(data_source(LogConnector)(given).streamReader(schema))
        return readers[-1]

    yield start
    for reader in readers:
        reader.stop()


def stored(offset):
    return json.loads(json.dumps(offset))


def next_offset(reader, start):
    return stored(reader.latestOffset(start, reader.getDefaultReadLimit()))


def positions(offset):
    return json.loads(StreamOffset.from_json(offset).enumerator.data)["positions"]


def test_a_source_continues_after_its_checkpoint_and_warns_once(restart, log, said):
    first = restart(start="x", limit="1")
    begin = stored(first.initialOffset())
    end = next_offset(first, begin)
    assert end["options"] == {"start": "x"} and "options" not in begin and said() == []
    again = restart(start="y", limit="2")
    assert next_offset(again, end) == end, "nothing to read"
    log.append(A0, 5)
    later = next_offset(again, end)
    assert positions(later) == {"a": {"0": 15}} and later["options"] == {"start": "x"}
    (message,) = said()
    assert message.startswith("source penstock.under_test: option 'start' was 'x' before and is 'y' now")


def test_a_source_is_refused_before_it_reads(restart, said):
    first = restart()
    end = next_offset(first, stored(first.initialOffset()))
    again = restart(shelf="low")
    with pytest.raises(BadConfigurationError, match="under_test: option 'shelf' was not set before"):
        next_offset(again, end)
    assert again._enumerator is None
    with pytest.raises(BadConfigurationError, match="'shelf'"):
        restart(shelf="low").partitions(stored(first.initialOffset()), end)  # the first batch is run again


def test_a_batch_that_is_run_again_is_compared_first(restart, said):
    first = restart(start="x")
    begin = stored(first.initialOffset())
    end = next_offset(first, begin)
    again = restart(start="y")
    assert [len(one.splits) for one in again.partitions(begin, end)] == [1]
    assert len(said()) == 1 and next_offset(again, end) == end
    assert len(said()) == 1


def test_an_end_that_is_moved_is_ignored_and_one_that_is_taken_away_is_not(restart, log, said):
    first = restart(end="5")
    end = next_offset(first, stored(first.initialOffset()))
    assert positions(end) == {"a": {"0": 5}} and end["final"]
    assert next_offset(restart(end="8"), end) == end
    assert "'end' was '5' before and is '8' now" in said()[0]
    on = next_offset(restart(), end)
    assert positions(on) == {"a": {"0": 10}} and on["options"] == {}
    assert len(said()) == 1


def test_a_checkpoint_of_an_earlier_release_continues_without_a_word(restart, said):
    first = restart(start="x")
    end = next_offset(first, stored(first.initialOffset()))
    del end["options"]
    again = restart(start="y", shelf="low")
    again.latestOffset(end, again.getDefaultReadLimit())
    assert said() == [] and StreamOffset.from_json(json.loads((GOLDEN / "offset-v1.json").read_text())).options is None


def test_tasks_get_no_options_to_compare(restart):
    reader = restart(start="x", password="hunter2")
    assert reader._options is not None and reader.__getstate__()["_options"] is None


def test_a_stored_offset_with_options_opens():
    value = json.loads((GOLDEN / "offset-v1-options.json").read_text())
    offset = StreamOffset.from_json(value)
    assert offset.options == {"startingOffsets": "earliest"} and offset.to_json() == value


# --- a sink -----------------------------------------------------------------------------------------------------------


def remember(checkpoint, connector="shelf", **given):
    options = DECLARED.parse(given, owner="sink t")
    remember_sink(LocalStorage(), str(checkpoint), connector, options, pa.schema([("id", pa.int64())]))
    return json.loads((checkpoint / "penstock" / "sink.json").read_text())


def test_a_sink_is_compared_with_the_run_before(tmp_path, said):
    first = remember(tmp_path, start="x", limit="1", password="hunter2")
    assert first["options"] == {"start": "x", "limit": "1"} and "held" not in first
    second = remember(tmp_path, start="y", limit="2")
    assert second["held"] == {"start": "x"} and second["options"] == {"start": "y", "limit": "2"}
    assert remember(tmp_path, start="y", limit="2") == second
    assert "held" not in remember(tmp_path, start="x"), "set back"
    assert len(said()) == 1 and said()[0].startswith(
        "sink penstock.shelf: option 'start' was 'x' before and is 'y' now"
    )


def test_a_sink_that_is_refused_stays_stored_as_it_was(tmp_path):
    first = remember(tmp_path, start="x")
    with pytest.raises(
        BadConfigurationError, match=r"^sink penstock\.shelf: option 'shelf' was not set before and is 'low'"
    ):
        remember(tmp_path, start="x", shelf="low")
    assert json.loads((tmp_path / "penstock" / "sink.json").read_text()) == first
    assert remember(tmp_path, "another", shelf="low")["options"] == {"shelf": "low"}, "another connector's is no change"


def test_a_sink_of_an_earlier_release_is_compared_too(tmp_path, said):
    checkpoint = shutil.copytree(GOLDEN / "checkpoint-v1", tmp_path / "ck")
    assert open_stored_query(str(checkpoint)).connector_name == "filesystem"
    path = checkpoint / "penstock" / "sink.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "connector": "shelf", "options": {"start": "x"}}))
    assert remember(checkpoint, start="y")["held"] == {"start": "x"} and len(said()) == 1


# --- our connectors ---------------------------------------------------------------------------------------------------

KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "a"}
PRAVEGA = {"stream": "s/a"}
TABLE, QUERY = {"keyspace": "k", "table": "t"}, {"keyspace": "k"}
AT_TIMES = '{"a": {"0": %d}}'
#: Every option that does not simply take effect: what a restart makes of it, one value and another, and what goes with
#: them. All others take effect: what was read stays read, and from the next start on the new value counts.
EXPECTED = {
    "kafka source startingTimestamp": ("kept", "1000", "2000", KAFKA),
    "kafka source startingOffsetsByTimestamp": ("kept", AT_TIMES % 1000, AT_TIMES % 2000, KAFKA),
    "kafka source startingOffsets": ("kept", "earliest", "latest", KAFKA),
    "kafka source startingOffsetsByTimestampStrategy": ("kept", "error", "latest", {**KAFKA, "startingTimestamp": "1"}),
    "kafka source groupOffsetsFallback": (
        "kept",
        "earliest",
        "latest",
        {**KAFKA, "startingOffsets": "group-offsets", "kafka.group.id": "g"},
    ),
    "kafka source endingTimestamp": ("kept once set", "1000", "2000", KAFKA),
    "kafka source endingOffsetsByTimestamp": ("kept once set", AT_TIMES % 1000, AT_TIMES % 2000, KAFKA),
    "kafka source endingOffsets": ("kept once set", AT_TIMES % 5, AT_TIMES % 8, KAFKA),
    "pravega source startingStreamCut": ("kept", "head", "tail", PRAVEGA),
    "pravega source endingStreamCut": ("kept once set", "tail", '{"s/a": "tail"}', PRAVEGA),
    "pravega source framing": ("refused", "events", "none", PRAVEGA),
    # A table is read once, split by split: what is left of it must be the same table.
    "cassandra source keyspace": ("refused", "k", "l", {"table": "t"}),
    "cassandra source table": ("refused", "t", "u", QUERY),
    "cassandra source query": ("refused", "SELECT a FROM t", "SELECT a FROM u", QUERY),
    "cassandra source where": ("refused", "a > 1", "a > 2", TABLE),
    "cassandra source maxSplitSize": ("kept", "64mb", "32mb", TABLE),
    "cassandra source splits": ("kept", "4", "8", TABLE),
    # Where what was sent is noted: elsewhere nothing would be known of it.
    "cassandra sink orderColumn": ("refused", "lsn", "at", TABLE),
    "cassandra sink checkpointKeyspace": ("refused", "k", "notes", {**TABLE, "delivery": "write-ahead"}),
}


def declared_by(connector):
    made = find_connector(connector).load()
    sides = {"source": made.source_options, "sink": made.sink_options}
    return {f"{connector} {side} {o.name}": o for side, among in sides.items() for o in among}


ALL = {key: o for name in ("cassandra", "filesystem", "kafka", "pravega") for key, o in declared_by(name).items()}


@pytest.mark.parametrize("key", sorted(ALL))
def test_every_option_says_what_a_restart_makes_of_it(key):
    expected = EXPECTED[key][0] if key in EXPECTED else "takes effect"
    assert ALL[key].at_restart == expected
    name = key.split()[2]
    if name.startswith(("starting", "ending")):
        assert expected == ("kept" if name.startswith("starting") else "kept once set"), "it is in the checkpoint"


class Still(SplitEnumerator):
    """Hands out nothing, and has something to store."""

    def __init__(self, state):
        self.state = state

    def start(self):
        pass

    def handle_split_request(self):
        return None

    def add_splits_back(self, splits):
        pass

    def snapshot_state(self):
        return self.state

    def wants_checkpoint(self):
        return True


def states():
    from penstock_cassandra.source import TableState
    from penstock_pravega.source._split import PravegaState

    return {
        "kafka": LogState({A0: 3}),
        "pravega": PravegaState({"s/a": {0: 5}}),
        "cassandra": TableState(1, 4, 10, "Murmur3Partitioner"),
    }


@pytest.mark.parametrize("key", [key for key in sorted(EXPECTED) if " source " in key])
def test_a_source_restarted_with_another_value_warns_or_stops(key, monkeypatch, said):
    connector, _, name = key.split()
    at_restart, value, other, more = EXPECTED[key]
    state, restored = states()[connector], []
    made = find_connector(connector).load()

    def start(text, offset):
        options = made.source_options.parse({**more, name: text}, owner=f"source penstock.{connector}")
        source = made.create_source(options)

        def create_enumerator(self, context, checkpoint):
            restored.append(checkpoint)
            return Still(state)

        monkeypatch.setattr(type(source), "create_enumerator", create_enumerator)
        reader = StreamReader(source, pa.schema([]), 1, None, options, f"source penstock.{connector}")
        return next_offset(reader, offset or stored(reader.initialOffset()))

    first = start(value, None)
    assert start(value, first)["options"] == first["options"] and said() == []
    if at_restart == "refused":
        with pytest.raises(BadConfigurationError, match=f"source penstock.{connector}: option '{name}' was"):
            start(other, first)
        assert len(restored) == 2
    else:
        assert start(other, first)["options"] == first["options"]
        (message,) = said()
        assert f"option '{name}' was {value!r} before and is {other!r} now" in message
        assert restored == [None, state, state]


@pytest.mark.parametrize("key", [key for key in sorted(EXPECTED) if " sink " in key])
def test_a_sink_restarted_with_another_value_stops(key, tmp_path):
    connector, _, name = key.split()
    made = find_connector(connector).load()
    at_restart, value, other, more = EXPECTED[key]
    assert at_restart == "refused", "what is kept warns: write that here"

    def start(text):
        options = made.sink_options.parse({**more, name: text}, owner=f"sink penstock.{connector}")
        remember_sink(LocalStorage(), str(tmp_path), connector, options, pa.schema([("id", pa.int64())]))

    start(value)
    start(value)
    with pytest.raises(BadConfigurationError, match=f"option '{name}' was '{value}' before and is '{other}' now"):
        start(other)


#: With these, a sink commits, and so is stored in the checkpoint.
COMMITS = {"cassandra": "write-ahead", "kafka": "exactly-once", "pravega": "exactly-once"}
FORMER_NAMES = [(key, name, None) for key, o in sorted(ALL.items()) if " sink " in key for name in o.former]
FORMER_CHOICES = [
    (key, o.name, old) for key, o in sorted(ALL.items()) if " sink " in key for old, _ in o.former_choices
]
KEYCLOAK = {"auth-server-url": "https://k:1", "realm": "r", "resource": "c", "credentials": {"secret": "s"}}


@pytest.mark.parametrize(("key", "name", "text"), FORMER_NAMES + FORMER_CHOICES)
def test_a_checkpoint_of_a_release_that_called_it_otherwise_opens(key, name, text, tmp_path):
    # Spark's workers import this module for a connector of it, and do not find the suite.
    from suite.option_cases import SCHEMA, cases

    connector, _, _ = key.split()
    option, sides = ALL[key], cases(f"{connector} sink")
    if option.name == "keycloakFile":
        (tmp_path / "keycloak.json").write_text(json.dumps(KEYCLOAK))
        texts = {**sides.given, option.name: str(tmp_path / "keycloak.json")}
    else:
        texts = sides.least(option, "stream")
    if option.name != "delivery":
        texts["delivery"] = COMMITS[connector]
    current = texts.pop(option.name) if text is None else dict(option.former_choices)[text]
    texts[name] = current if text is None else text
    checkpoint = shutil.copytree(GOLDEN / "checkpoint-v1", tmp_path / "ck")
    stored_options = {n: t for n, t in texts.items() if not sides.declared.is_secret(n)}
    form = {"format": 1, "connector": connector, "options": stored_options}
    form["schema"] = base64.b64encode(SCHEMA.serialize().to_pybytes()).decode()
    (checkpoint / "penstock" / "sink.json").write_text(json.dumps(form))
    secrets = {n: t for n, t in texts.items() if n not in stored_options}
    sink = stored_sink_of(str(checkpoint), secrets)
    assert sink.options[option.name] == option.parse(current)
    if (option.name, current) == ("delivery", "none"):
        with pytest.raises(BadConfigurationError, match="commits nothing"):
            open_stored_query(str(checkpoint), secrets)
    else:
        assert open_stored_query(str(checkpoint), secrets).connector_name == connector


@pytest.mark.parametrize(
    ("changed", "warns", "reached"),
    [
        ({"startingOffsets": "latest"}, True, 30),
        ({"startingOffsets": "earliest", "maxRowsPerTrigger": "5"}, False, 25),
        ({"startingOffsets": "earliest", "endingOffsets": AT_TIMES % 22}, False, 22),
    ],
)
def test_kafka_continues_where_its_checkpoint_says(changed, warns, reached, log, monkeypatch, said):
    kafka = find_connector("kafka").load()
    log.make("a", 20)

    def start(**given):
        options = kafka.source_options.parse({**KAFKA, **given}, owner="source penstock.kafka")
        source = kafka.create_source(options)
        monkeypatch.setattr(type(source), "create_client", lambda self: log)
        return StreamReader(source, pa.schema([]), 1, None, options, "source penstock.kafka")

    first = start(startingOffsets="earliest")
    end = next_offset(first, stored(first.initialOffset()))
    assert positions(end) == {"a": {"0": 20}}
    first.stop()
    log.append(A0, 10)
    again = start(**changed)
    later = next_offset(again, end)
    assert positions(later) == {"a": {"0": reached}} and bool(said()) is warns
    again.stop()


# --- on Spark ---------------------------------------------------------------------------------------------------------


class OnShelves(LinesConnector):
    """Declares what happens to two more options at a restart."""

    source_options = OptionSet([*LinesConnector.source_options, DECLARED.find("shelf"), DECLARED.find("start")])


@pytest.mark.spark
def test_spark_stores_what_is_compared(spark, tmp_path):
    lines, checkpoint = tmp_path / "lines", tmp_path / "ck"
    seen = []

    def run(more, **given):
        with lines.open("a") as out:
            out.writelines(f"{number}\n" for number in more)
        schema = pa.schema([("id", pa.int64())])
        query = SparkSourceQuery(spark, OnShelves, {"path": str(lines), **given}, schema, checkpoint)
        seen.extend(query.run_available_now(lambda row: row["id"]).elements())
        *_, last = sorted(path.name for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
        return json.loads((checkpoint / "offsets" / last).read_text().splitlines()[-1])["options"]

    assert run([1, 2], start="x") == {"start": "x"}
    assert run([3], start="y") == {"start": "x"}
    with pytest.raises(FatalError, match="option 'shelf' was not set before and is 'low' now"):
        run([4], start="y", shelf="low")
    assert sorted(seen) == [1, 2, 3]
