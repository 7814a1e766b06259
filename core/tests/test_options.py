from __future__ import annotations

import pickle
import socket
import threading

import pytest

from penstock import _letters
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError
from penstock.options import (
    Option,
    OptionSet,
    names_http_server,
    names_object,
    parse_bytes,
    parse_duration_ms,
    parse_port,
    unless,
    when,
)

DECLARED = OptionSet(
    [
        Option("path", "Where", required=True, credentials=("user", "secret")),
        Option("maxFilesPerTrigger", "How many", kind="int", default="100", minimum=1),
        Option("format", "What", kind="choice", choices=("csv", "parquet"), default="csv"),
        Option("header", "Header line", kind="bool", default="false"),
        Option("maxSplitBytes", "Size", kind="bytes", default="128mb"),
        Option("interval", "Time", kind="duration", default="10 seconds"),
        Option("place", "Where else", kind="path"),
        Option("s3.secret", "Secret", secret=True),
        Option("kafka.*", "Client settings"),
        Option("password.*", "Passwords", secret=True),
    ]
)


def parse(**given):
    return DECLARED.parse({"path": "x", **given}, owner="source penstock.t")


def test_defaults_and_types():
    values = parse(header="TRUE", FORMAT="Parquet")
    assert (values["maxfilespertrigger"], values["format"], values["header"]) == (100, "parquet", True)
    assert (values["maxSplitBytes"], values["interval"]) == (128 << 20, 10_000)
    assert values["s3.secret"] is None and values.is_set("header") and not values.is_set("interval")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"maxFilePerTrigger": "1"}, "no option 'maxFilePerTrigger'; did you mean 'maxFilesPerTrigger'?"),
        ({"maxFilesPerTrigger": "many"}, "'many' is not a whole number"),
        ({"maxFilesPerTrigger": "0"}, "below the least value 1"),
        ({"format": "parket"}, "'parket' is not one of csv, parquet; did you mean 'parquet'?"),
        ({"header": "yes"}, "'yes' is not true or false"),
        ({"maxSplitBytes": "12 parsecs"}, "is not a size such as"),
        ({"interval": "soon"}, "is not a duration such as"),
        ({"interval": "9" * 19 + "ms"}, "is not a duration that fits into 64 bits"),
        ({"interval": "9" * 400 + "ms"}, "is not a duration that fits into 64 bits"),
        ({"maxSplitBytes": "9" * 400}, "is not a size that fits into 64 bits"),
        ({"place": "a\0b"}, "is not a path that a file system takes"),
        ({"place": "a\udcff"}, "is not a path that a file system takes"),
    ],
)
def test_mistakes_are_named(given, message):
    with pytest.raises(BadConfigurationError, match="option") as caught:
        parse(**given)
    assert message in str(caught.value)


def test_a_name_of_another_connector_is_refused_with_what_to_do_instead():
    """Also where the engine adds options of its own, for dead letters, and in another process."""
    advice = "it is called path here"
    declared = OptionSet([Option("path", "Where")], instead={"Directory": advice})

    class Source(Connector):
        source_options = declared
        capabilities = frozenset({Capability.BATCH_READ})

        def create_source(self, options):
            raise NotImplementedError

    letters = _letters._prefixed(declared)
    for options, name in (
        (declared, "directory"),
        (Source.source_options, "DIRECTORY"),
        (pickle.loads(pickle.dumps(declared)), "Directory"),
        (letters, "deadLetters.directory"),
    ):
        (problem,) = options.problems({name: "x"}, owner="source t")
        assert problem.message == f"source t has no option '{name}': {advice}"
        assert (problem.name, problem.is_about_value, problem.is_warning) == (name, False, False)
    (problem,) = declared.problems({"directry": "x"}, owner="source t")
    assert problem.message == "source t has no option 'directry'", "which is near to no option"
    with pytest.raises(ValueError, match="twice"):
        OptionSet([Option("path", "Where")], instead={"Path": "x"})


@pytest.mark.parametrize(
    "address",
    [
        "https://anna:hunter2@h/x",
        "HTTP://hunter2@h",
        "redis://hunter2@h:1",
        "s3://key:hunter2@bucket/x",
        "hdfs://anna:hunter2@h/x",
        "http://a,http://anna:hunter2@b",
        "tcp://anna:hun@ter2@h:1",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_shown(address):
    said = []
    for name in ("path", "kafka.url"):
        with pytest.raises(BadConfigurationError, match=f"option '{name}' holds credentials") as caught:
            parse(**{name: address})
        said.append(str(caught.value))
    assert not any("hunter2" in one or "ter2" in one for one in said)
    assert "as 'user' and 'secret'" in said[0] and "in the options for them" in said[1]
    assert parse(**{"s3.secret": address, "password.url": address})["s3.secret"] == address


@pytest.mark.parametrize(
    "address",
    [
        "abfss://container@account.host/x",
        "hdfs://anna@h/x",
        "https://h/a@b",
        "s3://b/x:y@z",
        "a:b@c",
        "https://h:1,b@c",
    ],
)
def test_addresses_without_credentials(address):
    assert parse(path=address)["path"] == address


def test_required():
    with pytest.raises(BadConfigurationError, match="needs the option 'path': Where"):
        DECLARED.parse({}, owner="source penstock.t")


def test_engine_options_pass():
    assert "checkpointlocation" not in DECLARED.parse(
        {"path": "x", "checkpointLocation": "ck"}, owner="t", ignore=("checkpointLocation",)
    )


def test_prefixes():
    values = parse(**{"kafka.bootstrap.servers": "a:1", "KAFKA.acks": "all"})
    assert values.with_prefix("kafka.") == {"bootstrap.servers": "a:1", "acks": "all"}


def test_secrets_are_never_shown():
    values = parse(**{"s3.secret": "hunter2", "password.db": "hunter2"})
    assert "hunter2" not in repr(values) and "hunter2" not in str(values.texts(secrets=False))
    assert values["s3.secret"] == "hunter2" and "s3.secret" in values.texts(secrets=True)
    secret_number = OptionSet([Option("pin", "Pin", kind="int", secret=True)])
    with pytest.raises(BadConfigurationError) as caught:
        secret_number.parse({"pin": "hunter2"}, owner="t")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("1.5k", 1536), ("2 GiB", 2 << 30), ("128MB", 128 << 20)])
def test_bytes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "ms"), [("500", 500), ("1.5s", 1500), ("5 minutes", 300_000), ("7d", 604_800_000), ("250ms", 250)]
)
def test_durations(text, ms):
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["0", "65536", "-1", "", " 80", "8_0", "8.0", "\u0668\u0660", "9" * 5000])
def test_ports(text):
    assert [parse_port(one) for one in ("1", "9092", "65535")] == [1, 9092, 65535]
    with pytest.raises(ValueError, match=r"^a number from 1 to 65535$"):
        parse_port(text)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:80", "ftp://host", "http://", "http://:80", "http://host:0", "http://host:65536", "http://["],
)
def test_addresses_of_http_servers(text):
    well = ("http://host", "https://host:8081/a/b?c", "http://[::1]:80", "HTTP://host")
    assert all(map(names_http_server, well)) and not names_http_server(text)


@pytest.mark.parametrize("units", ["b", "k kb kib", "m mb mib", "g gb gib", "t tb tib"])
def test_every_unit_of_a_size(units):
    power = "bkmgt".index(units[0])
    assert {parse_bytes(f"3{unit}") for unit in units.split()} == {3 * 1024**power}


@pytest.mark.parametrize(
    ("units", "ms"),
    [
        ("ms millisecond milliseconds", 1),
        ("s sec secs second seconds", 1_000),
        ("m min mins minute minutes", 60 * 1_000),
        ("h hour hours", 60 * 60 * 1_000),
        ("d day days", 24 * 60 * 60 * 1_000),
        ("week weeks", 7 * 24 * 60 * 60 * 1_000),
    ],
)
def test_every_unit_of_a_duration(units, ms):
    assert {parse_duration_ms(f"3 {unit}") for unit in units.split()} == {3 * ms}


def test_declared_twice():
    with pytest.raises(ValueError, match="twice"):
        OptionSet([Option("a", ""), Option("A", "")])


@pytest.mark.parametrize("text", ["9" * 400, "8eib", "8192 pb", str(1 << 63), "8388608t"])
def test_sizes_that_nothing_can_count(text):
    with pytest.raises(BadConfigurationError, match=r"option 'maxSplitBytes': .* is not a size"):
        parse(path="a", maxSplitBytes=text)


def test_the_largest_size_is_exact():
    assert parse_bytes(str((1 << 63) - 1)) == (1 << 63) - 1


@pytest.mark.parametrize("text", ["36526d", "9223372036854775807", "200000 weeks"])
def test_durations_without_an_end_can_be_waited_for(text):
    ms = parse_duration_ms(text)
    assert ms == parse_duration_ms("36525d")
    assert ms / 1000 < threading.TIMEOUT_MAX
    with socket.socket() as one:
        one.settimeout(ms / 1000)


@pytest.mark.parametrize("text", [str(1 << 63), str(-(1 << 63) - 1), "9" * 30])
def test_whole_numbers_have_64_bits(text):
    with pytest.raises(BadConfigurationError, match=r"option 'n': .* is not a whole number of at most 64 bits"):
        OptionSet([Option("n", "N", kind="int")]).parse({"n": text}, owner="t")


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_value_is_not_what_an_option_needs(blank):
    declared = OptionSet(
        [
            Option("path", "Where", required=True),
            Option("n", "N", required_with=(unless("query"),)),
            Option("query", "Q"),
        ]
    )
    with pytest.raises(BadConfigurationError, match="t needs the option 'path': Where"):
        declared.parse({"path": blank, "n": "1"}, owner="t")
    with pytest.raises(BadConfigurationError, match="t needs the option 'n' or 'query'"):
        declared.parse({"path": "a", "n": blank}, owner="t")


def test_nothing_is_a_value_that_an_option_needs():
    declared = OptionSet(
        [Option("a", "A", kind="bool", default="false"), Option("n", "N", kind="duration", required_with=(when("a"),))]
    )
    assert declared.parse({"a": "true", "n": "0"}, owner="t")["n"] == 0


@pytest.mark.parametrize("text", ["a:", ":b", "a b:c", "zip", "c:\\x"])
def test_a_choice_that_names_no_object_is_refused(text):
    option = Option("codec", "C", kind="choice", choices=("none",), plugins=lambda: ("lz",))
    assert (option.parse("LZ"), option.parse(" my.own:Codec ")) == ("lz", "my.own:Codec")
    with pytest.raises(BadConfigurationError, match="is not one of none, lz, or module:Class"):
        option.parse(text)


@pytest.mark.parametrize(
    ("text", "is_one"), [("a.b:C", True), ("a:b.c", True), ("a", False), (":c", False), ("a:", False), ("a b:c", False)]
)
def test_what_names_an_object(text, is_one):
    assert names_object(text) is is_one
