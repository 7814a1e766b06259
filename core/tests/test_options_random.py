"""Random combinations of all declared options of every connector: each takes effect, is refused, or is warned of."""

from __future__ import annotations

import functools
import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from penstock._plugins import installed_connectors
from penstock.options import OptionValues
from penstock.testing._option_cases import OptionCases

SOME = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(SOME, max_examples=3000, derandomize=False)
MORE = pytest.mark.exhaustive("twenty times as many, and others each time; those that are always the same stay")
MODES = ("batch", "stream")
#: Options without which nothing is made.
GIVEN = {
    "filesystem source": {"path": "/in", "format": "csv"},
    "filesystem sink": {"path": "/out"},
    "kafka source": {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"},
    "kafka sink": {"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "t"},
    "cassandra source": {"keyspace": "k", "table": "t"},
    "cassandra sink": {"keyspace": "k", "table": "t"},
    "pravega source": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
    "pravega sink": {"controller": "tcp://127.0.0.1:9", "scope": "s", "stream": "t"},
}
#: Texts of options whose declaration does not say which they take.
TIMES = {"watermark.timestamps": ["at"], "watermark.strategy": ["bounded"]}
FORMATS = {"value.format": ["json"], "value.schema": ["n long"], "value.format.*": ["timeZone=Europe/Rome"]}
AVRO = json.dumps({"type": "string"})
WRITTEN = {"value.format": ["string", "avro"], "value.schema": [AVRO], "value.format.*": ["charset=latin-1"]}
KAFKA = {"kafka.*": ["client.id=me", "request.timeout.ms=7000"], "kafka.bootstrap.servers": ["127.0.0.1:7"]}
PLACES = ['{"t":{"0":7}}']
EXAMPLES = {
    "filesystem source": {
        "paths": ['["/other"]'],
        "encoding": ["latin-1"],
        "lineSep": [";"],
        "timeZone": ["Europe/Rome"],
        "dateFormat": ["dd.MM.yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm"],
        **{name: ["|"] for name in ("sep", "quote", "escape", "comment")},
    },
    "filesystem sink": {
        "compression": ["gzip"],
        "bucketAssigner": ["basePath"],
        "rollingPolicy": ["onCheckpoint"],
        "bucketColumn": ["at"],
        "bucketPattern": ["yyyy"],
        "bucketTimeZone": ["Europe/Rome"],
        "partitionColumns": ["p"],
        "dateFormat": ["dd.MM.yyyy"],
        "timestampFormat": ["dd.MM.yyyy HH:mm"],
        "lineSep": [";"],
        **{name: ["|"] for name in ("sep", "quote", "escape")},
    },
    "kafka source": {
        **KAFKA,
        **TIMES,
        **FORMATS,
        "assign": ['{"t":[0]}'],
        "startingOffsets": ["earliest", *PLACES, "group-offsets"],
        "endingOffsets": PLACES,
        "startingOffsetsByTimestamp": PLACES,
        "endingOffsetsByTimestamp": PLACES,
        "watermark.timestamps": ["at"],
        "key.format": ["string", "json"],
        "key.schema": ["n long"],
        "key.format.*": ["timeZone=Europe/Rome"],
        "commitGroupOffsets": ["g"],
    },
    "kafka sink": {
        **KAFKA,
        **WRITTEN,
        "partitioner": ["round-robin", "task"],
        **{name.replace("value", "key"): texts for name, texts in WRITTEN.items()},
    },
    "cassandra source": {"bundle": [], "where": ["n > 1"], "query": ["SELECT n FROM k.t"]},
    "cassandra sink": {"bundle": [], "columns": [], "statement": ["INSERT INTO k.t (n) VALUES (:n)"]},
    "pravega source": {
        **TIMES,
        **FORMATS,
        "controller": ["tls://127.0.0.1:7"],
        "keycloakFile": [],
        "startingStreamCut": ["tail"],
        "endingStreamCut": ["tail"],
    },
    "pravega sink": {
        **WRITTEN,
        "controller": ["tls://127.0.0.1:7"],
        "keycloakFile": [],
        "watermark.timestamps": ["at"],
    },
}
TLS = {"controller": "tls://127.0.0.1:9"}
#: What an option needs without declaring it, or in another form.
BESIDE = {
    "pravega source": {"tls.caFile": TLS, "tls.checkHostname": TLS},
    "pravega sink": {"tls.caFile": TLS, "tls.checkHostname": TLS},
    "kafka source": {"groupOffsetsFallback": {"kafka.group.id": "g", "startingOffsets": "group-offsets"}},
}
#: What has no effect on what is made, and why that is right.
APART = {"kafka sink includeHeaders": "Spark's users write it; a column headers is always written, as in Spark"}
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "value", "p")] + [("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]
)


@functools.cache
def cases(name):
    connector, _, side = name.partition(" ")
    made = next(one for one in installed_connectors() if one.name == connector).load()
    declared = made.source_options if side == "source" else made.sink_options
    make = made.create_source if side == "source" else functools.partial(made.create_sink, schema=SCHEMA)
    known = (GIVEN.get(name, {}), EXAMPLES.get(name, {}), (OptionValues,), BESIDE.get(name, {}))
    return OptionCases(declared, make, *known)


def is_apart(side, name):
    """Whether it is known that the option changes nothing of what is made."""
    return f"{side} {name}" in APART


SIDES = [f"{one.name} {side}" for one in installed_connectors() for side in ("source", "sink")]


@pytest.mark.parametrize("side", SIDES)
def test_every_option_is_accepted_somewhere_and_makes_a_difference(side):
    """With what it needs beside it, each option is accepted in a batch or in a stream, and is seen in what is made."""
    one, problems = cases(side), []
    for option in one.declared:
        if not one.texts(option):
            assert option.name in EXAMPLES.get(side, ()) or option.choices == (option.default,), "give an example"
            continue
        for mode in one.modes(option):
            texts = one.least(option, mode)
            shrug = None if is_apart(side, option.name) else one.shrug(texts, mode)
            if not one.is_accepted(texts, mode):
                shrug = f"not accepted: {one.refusal(texts, mode)}"
            if shrug:
                problems.append(f"{option.name} {mode} {texts}: {shrug}")
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("side", SIDES)
def test_a_batch_and_a_stream_are_made_of_options_alike(side):
    """The mode decides which options are taken, and nothing of what is made: a test of the effect serves both."""
    one = cases(side)
    both = [option for option in one.declared if len(one.modes(option)) == 2 and one.texts(option)]
    assert [o.name for o in both if not one.is_the_same_in_both_modes(one.least(o, "batch"))] == []


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("profile", [SOME, pytest.param(MANY, marks=MORE)])
def test_combinations_take_effect_or_are_refused_or_warned_of(side, profile):
    """Whatever a user combines: what has no effect is said."""
    one, accepted = cases(side), []

    @profile
    @given(st.data(), st.sampled_from(MODES))
    def holds(data, mode):
        texts = one.drawn(lambda values: data.draw(st.sampled_from(list(values))))
        note(f"{mode} {texts}")
        shrug = one.shrug({name: text for name, text in texts.items() if not is_apart(side, name)}, mode)
        assert shrug is None, shrug
        accepted.append(one.is_accepted(texts, mode))

    holds()
    assert sum(accepted) > len(accepted) / 5, "hardly a combination is accepted: give examples"
