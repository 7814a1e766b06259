"""Random combinations of the source's options on a broker: the rows of Spark's own connector, or a refusal.

What Spark's connector reads and ours refuses is in ``REFUSED`` and, in the same words, on the page of the connector.
Ours refuses all that Spark's does; options that Spark's lacks, and streams with an end, are not drawn.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import Phase, example, given, note, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, DataLostError

#: What fails is not made smaller, which would take minutes: an example is short.
SOME = settings(
    max_examples=3,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
#: The example of the test alone: a stream takes seconds.
ONE = settings(SOME, phases=[Phase.explicit])
MANY = settings(SOME, max_examples=120, derandomize=False)
MORE = pytest.mark.exhaustive("many more, and others each time; a few that are always the same stay")

#: Written for the beginning of the topics' names, which are new with every run.
NEW = "~"
BEGIN_MS = 1_700_000_000_000
#: Partitions of the topics that batches read, and the offsets that they have: the first, and the one after the last.
#: In ``gaps`` offsets are missing: control records, aborted records, and those that were deleted.
LOGS = {
    "plain": {0: (0, 12), 1: (0, 11)},
    "gaps": {0: (2, 16), 1: (0, 11)},
    "empty": {0: (0, 0)},
}
PARTITIONS = [(topic, number) for topic, partitions in LOGS.items() for number in partitions]


OPEN_LONG = {"transaction.timeout.ms": 900_000, "log_level": 2}


def records(partition, count, first=0):
    """Records a second apart, with and without keys, values and headers."""
    return [
        {
            "key": None if n % 3 == 0 else f"k{n}",
            "value": None if n % 5 == 4 else f"v{n}",
            "partition": partition,
            "timestamp": BEGIN_MS + n * 1000,
            "headers": [("a", b"1"), ("a", None), ("ü", b"")][: n % 4] or None,
        }
        for n in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def logs(kafka):
    """What the names of the topics of ``LOGS`` begin with, once they hold their records."""
    prefix = f"o{uuid.uuid4().hex[:8]}-"
    for topic, partitions in LOGS.items():
        kafka.create_topic(prefix + topic, partitions=len(partitions), retention_ms=-1)
    plain, gaps = prefix + "plain", prefix + "gaps"
    kafka.produce(plain, [*records(0, 12), *records(1, 11)])
    kafka.produce(gaps, [*records(0, 4), *records(1, 6)])
    kafka.produce_transaction(gaps, records(0, 4, first=4))
    kafka.produce_transaction(gaps, [*records(0, 2, first=8), *records(1, 4, first=6)], commit=False)
    kafka.produce(gaps, records(0, 2, first=10))
    kafka.delete_records(gaps, 0, 2)
    still_open = Producer({"bootstrap.servers": kafka.address, "transactional.id": prefix, **OPEN_LONG})
    still_open.init_transactions(30)
    still_open.begin_transaction()
    for record in records(0, 2, first=12):
        still_open.produce(gaps, **record)
    still_open.flush(30)
    assert {name: kafka.end_offsets(prefix + name) for name in LOGS} == {
        name: {number: end for number, (_, end) in partitions.items()} for name, partitions in LOGS.items()
    }
    yield prefix
    still_open.abort_transaction(30)


# --- what is drawn ----------------------------------------------------------------------------------------------------

SEVERAL = ["~plain", "~plain,~gaps", "~gaps", "~gaps", "~empty", " ~gaps , ~plain ,"]
PATTERNS = ["~.*", "~(plain|gaps)", "~[a-p]+", "~nothing.*", " ~plain ", "~pl", "(?i)~PLAIN", "~[a-z&&[^pg]]+"]
ODD_CHOICES = [
    {},
    {"subscribe": "~plain", "assign": '{"~plain":[0]}'},
    {"subscribe": "~plain", "subscribePattern": "~plain"},
    {"subscribe": " , "},
    {"subscribe": "~missing"},
    {"subscribePattern": " "},
    {"subscribePattern": "~[a"},
    {"assign": "~plain"},
    {"assign": "{}"},
    {"assign": '{"~plain":[0,7]}'},
    {"assign": '{"~plain":{"0":1}}'},
]
EXTRAS = {
    "includeHeaders": ["true", "TRUE", "false"],
    "minPartitions": ["1", "3", "9"],
    "maxRecordsPerPartition": ["1", "3", "100"],
    "failOnDataLoss": ["true", "false", "False"],
    "kafka.isolation.level": ["read_committed", "read_uncommitted"],
    "maxOffsetsPerTrigger": ["4"],
    "fetchOffset.numRetries": ["1"],
    "groupIdPrefix": ["mine"],
}
WRONG = {
    "includeHeaders": ["yes", ""],
    "minPartitions": ["0", "-1", "many", "", "1.5"],
    "maxRecordsPerPartition": ["0", "few"],
    "failOnDataLoss": ["no"],
    "kafka.isolation.level": ["read_some"],
    "startingTimestamp": ["yesterday", "-1", "1.5"],
    "endingTimestamp": ["-1", "9223372036854775808"],
    "maxOffsetsPerTrigger": ["0", "-1", "x", "9223372036854775808"],
    "fetchOffset.retryIntervalMs": ["-1", "x"],
    "fetchOffset.numRetries": ["-1", "x"],
    "assign": ['{"~plain":[-1]}', '{"~plain":[]}', '{"~plain":[0.0]}', '{"":[0]}', "[]", "null"],
    "startingOffsets": [
        "nearest",
        "[]",
        '{"~plain":3}',
        '{"~plain":{"0":-3,"1":0}}',
        "",
        "{}",
        '{"~plain":{"x":0}}',
        '{"~plain":{"0":1.5,"1":0}}',
        "null",
    ],
    "endingOffsets": ["earliest", "soon", "{}", '{"~plain":{"0":-2,"1":1}}'],
    "startingOffsetsByTimestamp": ["latest", "{}", "5", '{"~plain":{"0":-1,"1":-2}}'],
    "endingOffsetsByTimestamp": ["latest", '{"~plain":[0]}'],
    "startingOffsetsByTimestampStrategy": ["earliest", "", "none"],
    "kafka.bootstrap.servers": [""],
    "kafka.group.id": ["g"],
    "kafka.enable.auto.commit": ["true"],
    "kafka.auto.offset.reset": ["earliest"],
    "kafka.key.deserializer": ["x"],
}


def chosen(options):
    """The partitions that the options mean. A pattern is found anywhere in the names."""
    if "assign" in options:
        listed = json.loads(options["assign"])
        return [(topic.removeprefix(NEW), number) for topic, numbers in listed.items() for number in numbers]
    if "subscribe" in options:
        topics = {one.strip().removeprefix(NEW) for one in options["subscribe"].split(",")}
    else:
        wanted = {"~.*": LOGS, "~(plain|gaps)": ["plain", "gaps"], "~[a-p]+": LOGS, "~nothing.*": []}
        topics = wanted.get(options["subscribePattern"], ["plain"])
    return [(topic, number) for topic, number in PARTITIONS if topic in topics]


@st.composite
def choices(draw):
    """One of the three options that say what is read."""
    name = draw(st.sampled_from(["subscribe", "subscribe", "subscribePattern", "assign"]))
    if name == "assign":
        picked = draw(st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=4, unique=True))
        return {"assign": as_json(dict.fromkeys(picked), of=list)}
    return {name: draw(st.sampled_from(SEVERAL if name == "subscribe" else PATTERNS))}


def as_json(numbers, of=dict):
    """Numbers by partition as the options write them; with ``list`` the partitions alone."""
    listed = {}
    for (topic, partition), number in numbers.items():
        of_topic = listed.setdefault(NEW + topic, of())
        if of is list:
            of_topic.append(partition)
        else:
            of_topic[str(partition)] = number
    return json.dumps(listed)


@st.composite
def by_partition(draw, partitions, numbers):
    """JSON with a number for each of the partitions; now and then one is missing, or one is too much."""
    named = {one: draw(numbers(one)) for one in partitions}
    odd = draw(st.sampled_from([None] * 12 + ["missing", "more"]))
    if odd == "missing" and named:
        named.popitem()
    if odd == "more":
        named["plain", 9] = draw(numbers(("plain", 0)))
    return as_json(named)


def offsets_of(one):
    """Offsets in and around the partition."""
    first, end = LOGS.get(one[0], {}).get(one[1], (0, 3))
    middle = (first + end) // 2
    return st.sampled_from([-2, -2, -1, 0, first, middle, middle, max(0, end - 1), end, end, end + 5])


def start_offsets_of(one):
    return offsets_of(one).filter(lambda offset: offset != -1)


def end_offsets_of(one):
    return offsets_of(one).map(lambda offset: -1 if offset == -2 else offset)


SECONDS = st.sampled_from([0, 1, 3, 5, 7, 9, 10, 11, 12, 13, 100, -1_000_000_000])
TIMES = st.builds(lambda second, more: BEGIN_MS + second * 1000 + more, SECONDS, st.sampled_from([0, 0, 1, 500]))


def times_of(_):
    return TIMES


@st.composite
def positions(draw, side, partitions):
    """Options of where reading starts, or where it stops; seldom several, of which one counts."""
    offsets = start_offsets_of if side == "starting" else end_offsets_of
    words = ["earliest", "Earliest", " EARLIEST "] if side == "starting" else ["latest", "LATEST", " latest "]
    drawn = {
        f"{side}Offsets": st.one_of(*[by_partition(partitions, offsets)] * 3, st.sampled_from(words)),
        f"{side}Timestamp": TIMES.map(str),
        f"{side}OffsetsByTimestamp": by_partition(partitions, times_of),
    }
    number = draw(st.sampled_from([0, 1, 1, 1, 1, 2]))
    names = draw(st.lists(st.sampled_from(sorted(drawn)), min_size=number, max_size=number, unique=True))
    options = {name: draw(drawn[name]) for name in names}
    if (
        side == "starting"
        and draw(st.sampled_from([True, True, True, False]))
        and any("Time" in name for name in names)
    ):
        options["startingOffsetsByTimestampStrategy"] = draw(st.sampled_from(["error", "latest", "latest", "LATEST"]))
    return options


def in_some_cases(draw, options):
    """The options, with names in capitals or not. What follows ``kafka.`` is Kafka's, which knows only its own."""
    written = {}
    for name, text in options.items():
        how = draw(st.sampled_from([str, str, str.lower, str.upper, str.swapcase]))
        begin, dot, rest = name.rpartition("kafka.")
        written[how(dot) + rest if begin == "" and dot else how(name)] = text
    return written


@st.composite
def batches(draw):
    options = draw(choices())
    partitions = chosen(options)
    options |= draw(positions("starting", partitions)) | draw(positions("ending", partitions))
    for name in draw(st.lists(st.sampled_from(sorted(EXTRAS)), unique=True, max_size=4)):
        options[name] = draw(st.sampled_from(EXTRAS[name]))
    odd = draw(st.sampled_from([None] * 5 + ["choice", "value"]))
    if odd == "choice":
        for name in ("assign", "subscribe", "subscribePattern"):
            options.pop(name, None)
        options |= draw(st.sampled_from(ODD_CHOICES))
    if odd == "value":
        name = draw(st.sampled_from(sorted(WRONG)))
        if name == "assign":
            options.pop("subscribe", None), options.pop("subscribePattern", None)
        options[name] = draw(st.sampled_from(WRONG[name]))
    return in_some_cases(draw, options)


# --- what is compared -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Why a connector read nothing, in its words."""

    reason: str


@dataclass(frozen=True)
class Refused:
    """One row of the page's table: what, an example of it, and what is in our message."""

    what: str
    options: dict[str, str]
    message: str


REFUSED = [
    Refused(
        "`{}` for the offsets or times of partitions, where `subscribePattern` finds no topic",
        {"subscribePattern": "~nothing", "startingOffsets": "{}"},
        r"'\{\}' is not ",
    ),
    Refused(
        "a partition in `assign` that its topic does not have",
        {"assign": '{"~plain":[0,7]}'},
        r"partition \S+ can't be read: it does not exist",
    ),
    Refused(
        "`startingTimestamp` after `endingTimestamp`, where no record is at or after either",
        {
            "subscribe": "~plain",
            "startingTimestamp": str(BEGIN_MS + 99_000),
            "startingOffsetsByTimestampStrategy": "latest",
            "endingTimestamp": str(BEGIN_MS + 98_000),
        },
        r"'startingTimestamp' \(\d+\) is after endingTimestamp",
    ),
    Refused(
        "`[` or `&&` within `[...]` in `subscribePattern`",
        {"subscribePattern": "~[a-z&&[^pg]]+"},
        "which Java and Python read differently",
    ),
    Refused(
        "`maxTriggerDelay` without `minOffsetsPerTrigger`",
        {"subscribe": "~plain", "maxTriggerDelay": "1s"},
        "'maxTriggerDelay' takes effect only with 'minRowsPerTrigger'",
    ),
    Refused(
        "`-1`, `-2` or another time below 0",
        {
            "subscribe": "~plain",
            "startingOffsetsByTimestamp": '{"~plain":{"0":-2,"1":-2}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
        r"-\d+ is no time|Timestamp': '-\d+' is below the least value",
    ),
    Refused(
        "`1.5` or `null` for an offset or a time of a partition",
        {"subscribe": "~plain", "startingOffsets": '{"~plain":{"0":1.5,"1":null}}'},
        "is no whole number",
    ),
    Refused(
        "`-1`, `0.0` or `+0` for the number of a partition",
        {"assign": '{"~plain":[0.0]}'},
        "is no partition number",
    ),
    Refused(
        "`[]` for the partitions of the only topic in `assign`",
        {"assign": '{"~plain":[]}'},
        "'assign' names no partition",
    ),
    Refused(
        "`maxOffsetsPerTrigger` or `minOffsetsPerTrigger` that is no whole number or below 1, for a batch",
        {"subscribe": "~plain", "maxOffsetsPerTrigger": "0"},
        "'m[axin]{2}RowsPerTrigger': .* is (below the least value|not a whole number)",
    ),
    Refused(
        "`fetchOffset.retryIntervalMs` below 0",
        {"subscribe": "~plain", "fetchOffset.retryIntervalMs": "-1"},
        "'fetchOffset.retryIntervalMs': .* is not a duration",
    ),
    Refused(
        "`startingOffsetsByTimestampStrategy` without a starting time",
        {"subscribe": "~plain", "startingOffsetsByTimestampStrategy": "latest"},
        "'startingOffsetsByTimestampStrategy' takes effect only with",
    ),
]


START_AFTER_END = {"startingTimestamp": str(BEGIN_MS + 5000), "endingOffsets": '{"~plain":{"0":-1,"1":0}}'}


def in_order(rows):
    """Rows as text, in an order."""
    return sorted(map(repr, rows))


def of_ours(kafka_source, options):
    """The rows of a task of our source and their columns, or its refusal."""
    try:
        source = kafka_source(**options)
        return in_order(source.rows()), source.schema().names
    except (BadConfigurationError, DataLostError) as error:
        return Refusal(str(error))


def sparks_own(options):
    """Options for Spark's connector alone: it looks again soon, gives up soon, and has our default of isolation."""
    own = {"fetchOffset.retryIntervalMs": "1", "kafkaConsumer.pollTimeoutMs": "2000"}
    isolation = (
        {} if "kafka.isolation.level" in map(str.lower, options) else {"kafka.isolation.level": "read_committed"}
    )
    return {**own, **isolation}


def of_sparks(spark, address, options):
    """The rows of Spark's connector and their columns, or its refusal."""
    given = {"kafka.bootstrap.servers": address, **sparks_own(options), **options}
    try:
        frame = spark.read.format("kafka").options(**given).load()
        return in_order(frame.toArrow().to_pylist()), frame.columns
    except Exception as error:
        return Refusal(str(error)[:500])


def check(ours, theirs):
    """The same rows; or a message of one line, for what Spark refuses as well or for a reason of the page."""
    note(f"ours: {ours}")
    note(f"Spark: {theirs}")
    if not isinstance(ours, Refusal):
        assert not isinstance(theirs, Refusal), "only Spark refuses"
        assert ours == theirs
        return
    assert "\n" not in ours.reason
    reasons = [one.message for one in REFUSED]
    assert isinstance(theirs, Refusal) or any(re.search(reason, ours.reason) for reason in reasons), "only we refuse"


@pytest.mark.spark
@pytest.mark.budget(120)
@pytest.mark.parametrize("profile", [SOME, pytest.param(MANY, marks=MORE)])
def test_a_batch_is_as_in_spark_or_refused(spark, kafka, kafka_source, logs, profile):
    @profile
    @example({"subscribePattern": "~pl"})
    @example({**START_AFTER_END, "subscribe": "~plain"})
    @given(batches())
    def holds(options):
        filled = {name: text.replace(NEW, logs) for name, text in options.items()}
        check(of_ours(kafka_source, filled), of_sparks(spark, kafka.address, filled))

    holds()


@pytest.mark.spark
@pytest.mark.parametrize("one", REFUSED, ids=lambda one: re.sub(r"\W+", "-", one.what))
def test_what_only_we_refuse(spark, kafka, kafka_source, logs, one):
    """If this fails, a difference has gone, or has become another: the page and this list say so then."""
    filled = {name: text.replace(NEW, logs) for name, text in one.options.items()}
    ours = of_ours(kafka_source, filled)
    assert isinstance(ours, Refusal) and re.search(one.message, ours.reason)
    assert not isinstance(of_sparks(spark, kafka.address, filled), Refusal)


def test_the_page_lists_what_only_we_refuse():
    page = (Path(__file__).parents[3] / "docs" / "kafka.md").read_text()
    section = page.partition("values that Spark's connector takes")[2].partition("\n\n| ")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[1:] == [one.what for one in REFUSED]


# --- streams ----------------------------------------------------------------------------------------------------------

STREAMED = {
    "includeHeaders": ["true"],
    "minPartitions": ["5"],
    "maxRecordsPerPartition": ["2"],
    "failOnDataLoss": ["false"],
    "kafka.isolation.level": ["read_committed", "read_uncommitted"],
    "maxOffsetsPerTrigger": ["1", "4", "7", "100", "9223372036854775807"],
    "minOffsetsPerTrigger": ["1", "3", "50"],
    "maxTriggerDelay": ["1s", "15m"],
    "groupIdPrefix": ["mine"],
    "fetchOffset.numRetries": ["1", "2"],
}
WRONG_OF_STREAMS = {
    "maxOffsetsPerTrigger": ["all", ""],
    "minOffsetsPerTrigger": ["some"],
    "maxTriggerDelay": ["soon"],
    "startingOffsets": ["{}", "nearest"],
    "minPartitions": ["0"],
    "failOnDataLoss": ["perhaps"],
}


@dataclass(frozen=True)
class Stream:
    """Options, and what is written before each run: a partition, a count, and how.

    ``commit`` and ``abort`` end a transaction. ``lost``: the first records of the partition are deleted, up to an
    offset. ``grow``: the topic gets a third partition, in place of the one that is named. ``later`` are the options of
    the second run, if they are others.
    """

    options: dict[str, str]
    written: list[list[tuple[int, int, str]]]
    later: dict[str, str] | None = None


A_STREAM = Stream(
    {
        "SubscribePattern": "~$",
        "STARTINGOFFSETS": '{"~":{"0":3,"1":-2}}',
        "maxOffsetsPerTrigger": "7",
        "minOffsetsPerTrigger": "3",
        "includeheaders": "TRUE",
    },
    [[(0, 5, "plain"), (1, 2, "abort"), (1, 3, "commit")], [(0, 2, "abort"), (1, 4, "plain")]],
)
#: A restart with other options, after records were deleted that had been read, and some that had not.
CHANGED = Stream(
    {"subscribe": "~", "startingOffsets": "earliest", "includeHeaders": "true", "maxOffsetsPerTrigger": "3"},
    [[(0, 5, "plain"), (1, 2, "plain")], [(0, 4, "plain"), (0, 7, "lost"), (2, 3, "grow"), (1, 2, "abort")]],
    {
        "subscribePattern": "~$",
        "startingOffsets": "latest",
        "failOnDataLoss": "false",
        "maxRecordsPerPartition": "2",
        "kafka.isolation.level": "read_uncommitted",
    },
)
CHOICES = [{"subscribe": "~"}, {"subscribePattern": "~$"}, {"assign": '{"~": [0, 1]}'}]


def with_both_limits(options):
    """Whether Spark leaves a last batch that is too small to the next run, as the page says."""
    return {"minOffsetsPerTrigger", "maxOffsetsPerTrigger"} <= options.keys()


@st.composite
def changes(draw, options):
    """The options of a restart: some are left out, some have another value."""
    later = dict(options)
    for name in draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=2)):
        if name not in ("subscribe", "subscribePattern", "assign"):
            del later[name]
    if draw(st.booleans()):
        later = {name: text for name, text in later.items() if name not in ("subscribe", "subscribePattern", "assign")}
        later |= draw(st.sampled_from([*CHOICES, {"assign": '{"~": [0]}'}, {"assign": '{"~": [0, 1, 2]}'}]))
    if draw(st.booleans()):
        later["startingOffsets"] = draw(st.sampled_from(["earliest", "latest", json.dumps({NEW: {"0": 0, "1": -1}})]))
    for name in draw(st.lists(st.sampled_from(sorted(STREAMED)), unique=True, max_size=3)):
        later[name] = draw(st.sampled_from(STREAMED[name]))
    return options if with_both_limits(later) else later


@st.composite
def streams(draw):
    parts = st.tuples(st.integers(0, 1), st.integers(1, 5), st.sampled_from(["plain", "plain", "commit", "abort"]))
    written = [draw(st.lists(parts, min_size=1, max_size=3)) for _ in range(2)]
    options = draw(st.sampled_from(CHOICES))
    ends = [sum(count + (how != "plain") for part, count, how in written[0] if part == one) for one in (0, 1)]
    starts = {str(one): draw(st.sampled_from([-2, -1, 0, ends[one] // 2, ends[one]])) for one in (0, 1)}
    place = st.sampled_from(
        [("startingOffsets", "earliest")] * 2
        + [
            ("startingOffsets", "latest"),
            ("startingOffsets", json.dumps({NEW: starts})),
            ("startingTimestamp", str(BEGIN_MS + 2000)),
            ("startingOffsetsByTimestamp", json.dumps({NEW: {"0": BEGIN_MS, "1": BEGIN_MS + 1500}})),
        ]
    )
    name, text = draw(place)
    options = {**options, name: text}
    if "Time" in name:
        options["startingOffsetsByTimestampStrategy"] = draw(st.sampled_from(["latest", "latest", "error"]))
    for name in draw(st.lists(st.sampled_from(sorted(STREAMED)), unique=True, max_size=4)):
        options[name] = draw(st.sampled_from(STREAMED[name]))
    if draw(st.sampled_from([False] * 5 + [True])):
        name = draw(st.sampled_from(sorted(WRONG_OF_STREAMS)))
        options[name] = draw(st.sampled_from(WRONG_OF_STREAMS[name]))
    later = options
    if not with_both_limits(options):
        later = draw(changes(options))
        if draw(st.booleans()):
            lost = st.tuples(st.integers(0, 1), st.integers(1, 9), st.just("lost"))
            written[draw(st.integers(0, 1))].append(draw(lost))
    if draw(st.booleans()):
        written[1].insert(0, (2, draw(st.integers(1, 4)), "grow"))
    return Stream(in_some_cases(draw, options), written, in_some_cases(draw, later))


def run(spark, connector, options, checkpoint):
    """The rows of a run to the end of what is there, or the refusal."""
    rows = []

    def take(frame, _):
        rows.extend(frame.toArrow().to_pylist())

    try:
        frame = spark.readStream.format(connector).options(**options).load()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
    except Exception as error:
        if connector == "kafka":
            return Refusal(str(error)[:500])
        found = re.search(r"penstock\.errors\.(?:BadConfiguration|DataLost)Error: (.+)\n\[PENSTOCK-", str(error))
        if found is None:
            raise
        return Refusal(found[1])
    return in_order(rows)


@pytest.mark.spark
@pytest.mark.budget(120)
@pytest.mark.parametrize("profile", [ONE, pytest.param(settings(MANY, max_examples=16), marks=MORE)])
def test_a_stream_and_its_restart_are_as_in_spark_or_refused(spark, kafka, tmp_path, profile):
    @profile
    @example(A_STREAM)
    @example(CHANGED)
    @given(streams())
    def holds(case):
        topic = kafka.create_topic(partitions=2, retention_ms=-1)
        number, read, left = 0, [], set()
        for written, given_now in zip(case.written, [case.options, case.later or case.options], strict=True):
            number = write(kafka, topic, written, number)
            options = {name: text.replace(NEW, topic) for name, text in given_now.items()}
            both = {"penstock.kafka": options, "kafka": {**sparks_own(options), **options}}
            ours, theirs = (
                run(spark, name, {"kafka.bootstrap.servers": kafka.address, **given}, tmp_path / topic / name)
                for name, given in both.items()
            )
            limits = {
                name.lower(): text for name, text in options.items() if name.lower().endswith("offsetspertrigger")
            }
            if len(limits) == 2 and not isinstance(ours, Refusal) and not isinstance(theirs, Refusal):
                # As the page says, Spark leaves a last batch that is too small to the next run.
                read += ours
                left = (left | set(ours)) - set(theirs)
                assert len(left) < int(limits["minoffsetspertrigger"]) and {*theirs} <= {*read}
                continue
            check(ours, theirs)
            if isinstance(ours, Refusal):
                return

    holds()


def write(kafka, topic, written, number):
    """Does what is to happen before a run. Returns the number of the next record."""
    for partition, count, how in written:
        if how == "lost":
            kafka.delete_records(topic, partition, min(count, kafka.end_offsets(topic)[partition]))
            continue
        if how == "grow":
            kafka.add_partitions(topic, 3)
        these = records(partition, count, first=number)
        number += count
        if how in ("plain", "grow"):
            kafka.produce(topic, these)
        else:
            kafka.produce_transaction(topic, these, commit=how == "commit")
    return number
