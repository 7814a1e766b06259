"""What an option needs of the others is data, which decides what is refused, and what is ignored with a warning."""

from __future__ import annotations

import logging
import pickle

import pytest

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionSet, common_option, unless, when

DECLARED = OptionSet(
    [
        Option("table", "Table", required_with=(unless("query"),), excludes=(when("query"),)),
        Option("query", "Query"),
        Option("where", "Condition", excludes=(when("query"),), advice="write it into the query"),
        Option("clean", "Clean up", "choice", "off", ("off", "archive", "delete"), only_in="stream"),
        Option("archive", "Folder", needs=(when("clean", "archive"),), required_with=(when("clean", "archive"),)),
        Option("format", "Format", "choice", "csv", ("csv", "json", "parquet")),
        Option("sep", "Separator", needs=(when("format", "csv"),), tolerated=True, aliases=("delimiter",)),
        Option("lines", "Lines", needs=(when("format", "csv", "json"),), tolerated=True),
        Option("tls", "TLS", "bool", "false"),
        Option("tls.check", "Names", "bool", "true", needs=(when("tls"),)),
        Option("tls.*", "Other settings", needs=(when("tls"),)),
        Option("assigner", "Assigner"),
        Option("pattern", "Pattern", needs=(when("assigner", "dateTime", None),)),
        Option("either", "Either", needs=((when("tls"), unless("format", "csv", "json")),)),
        Option("archive.depth", "Depth", needs=(when("archive"),)),
        Option("sep.quote", "Quote", needs=(when("sep"),)),
        Option("limit", "Limit", needs=(unless("query"),)),
        Option("first", "First", needs=(when("second"),)),
        Option("second", "Second", needs=(when("first"),)),
        Option("port", "Port", "int", "1", minimum=1, maximum=65_535),
        Option("zone", "Zone", check=lambda text: _refuse(text)),
        Option(
            "client",
            "Client",
            "choice",
            "auto",
            ("auto", "protocol"),
            former=("library",),
            choice_aliases=(("fast", "protocol"),),
            former_choices=(("native", "protocol"),),
        ),
        common_option("maxRowsPerTrigger", aliases=("maxOffsetsPerTrigger",)),
    ]
)


def _refuse(text):
    if text == "Mars":
        raise ValueError("a time zone")


def given_of(given):
    return given if "query" in given else {"table": "t", **given}


def problems(mode=None, **given):
    found = DECLARED.problems(given_of(given), owner="source t", mode=mode)
    return [(problem.message, problem.is_warning) for problem in found]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"archive": "x"}, "'archive' takes effect only with clean=archive, and clean is off: leave it out, or set"),
        ({"archive": "x", "clean": "delete"}, "only with clean=archive, and clean is delete"),
        ({"clean": "archive"}, "option clean=archive needs the option 'archive': Folder"),
        ({"query": "q", "table": "t"}, "'table' can't be used with 'query': leave one of them out"),
        ({"query": "q", "where": "w"}, "'where' can't be used with 'query': write it into the query"),
        ({"tls.check": "true"}, "'tls.check' takes effect only with tls=true: leave it out, or set that as well"),
        ({"tls.file": "x"}, "'tls.file' takes effect only with tls=true"),
        ({"pattern": "p", "assigner": "columns"}, "only with assigner=dateTime, and assigner is columns"),
        ({"either": "x"}, "only with tls=true or format other than csv or json"),
        (
            {"sep": "x", "sep.quote": "y", "format": "json"},
            "'sep.quote' takes effect only with 'sep', which takes effect",
        ),
        ({"query": "q", "limit": "1"}, "'limit' has no effect with 'query': leave one of them out"),
        ({"first": "1"}, "'first' takes effect only with 'second'"),
        ({"port": "70000"}, "'70000' is above the largest value 65535"),
        ({"zone": "Mars"}, "'Mars' is not a time zone"),
        ({"sep": "a", "DELIMITER": "b"}, "options 'sep' and 'delimiter' are the same: leave one out"),
    ],
)
def test_what_can_not_count_is_refused_in_one_line(given, said):
    (first, is_warning), *_ = problems(**given)
    assert said in first and "\n" not in first and not is_warning
    with pytest.raises(BadConfigurationError) as caught:
        DECLARED.parse(given_of(given), owner="source t")
    assert str(caught.value) == first


@pytest.mark.parametrize(
    "given",
    [
        {"archive": "x", "clean": "ARCHIVE"},
        {"pattern": "p"},
        {"pattern": "p", "assigner": " datetime "},
        {"either": "x", "format": "parquet"},
        {"tls": "true", "tls.check": "false", "tls.file": "x"},
        {"sep": "a", "delimiter": "a"},
        {"clean": "off"},
        {"first": "1", "second": "2"},
        {"archive": "x", "archive.depth": "1", "clean": "archive"},
        {"tls": "false"},
        {"port": "65535", "zone": "Venus"},
    ],
)
def test_what_counts_passes_in_silence(given):
    assert problems(mode="stream", **given) == []


def test_one_of_several_is_needed():
    (problem,) = DECLARED.problems({}, owner="source t")
    assert problem.message == "source t needs the option 'table' or 'query'" and problem.name is None


def test_a_batch_and_a_stream():
    (refused,) = problems(mode="batch", clean="delete")
    assert refused == ("option 'clean' takes effect only in a stream, and this is a batch: leave it out", False)
    assert problems(mode="stream", clean="delete") == [] == problems(clean="delete")
    (tolerated,) = problems(mode="batch", maxOffsetsPerTrigger="5")
    assert tolerated == (
        "source t ignores 'maxOffsetsPerTrigger': it takes effect only in a stream, and this is a batch",
        True,
    )


def test_what_is_tolerated_is_said_once(caplog):
    given = {"table": "t", "format": "parquet", "sep": ";", "lines": "x"}
    with caplog.at_level(logging.WARNING, "penstock.options"):
        for _ in range(2):
            assert DECLARED.parse(given, owner="source once")["sep"] == ";"
    assert [record.getMessage() for record in caplog.records] == [
        "source once ignores 'sep': it takes effect only with format=csv, and format is parquet",
        "source once ignores 'lines': it takes effect only with format=csv or json, and format is parquet",
    ]


def test_what_only_infers_a_schema_is_said_where_one_is_given(caplog):
    declared = OptionSet(
        [Option("ratio", "", "float", "1", infers=True), Option("types", "", "bool", "false", infers=True)]
    )
    for given in ({}, {"types": "false"}):
        declared.parse(given, owner="t").warn_of_given_schema("source inferring")
    assert not caplog.records
    declared.parse({"RATIO": "0.5", "types": "true"}, owner="t").warn_of_given_schema("source inferring")
    assert [record.getMessage() for record in caplog.records] == [
        "source inferring ignores 'ratio', 'types': each takes effect only where no schema is given"
    ]
    assert declared[0].rules() == ["Only where no schema is given"]


def test_other_names_mean_the_same(caplog):
    values = DECLARED.parse({"table": "t", "DELIMITER": ";", "client": "Fast"}, owner="source t")
    assert (values["sep"], values["client"]) == (";", "protocol") and values.is_set("sep")
    assert values.texts(secrets=True) == {"table": "t", "sep": ";", "client": "Fast"}
    assert not caplog.records
    former = DECLARED.parse({"table": "t", "library": "native"}, owner="source former")
    assert former["client"] == "protocol"
    assert [record.getMessage() for record in caplog.records] == [
        "source former: option 'library' is called 'client' now",
        "source former: client=native is called client=protocol now",
    ]


def test_the_page_says_it():
    rules = {option.name: option.rules() for option in DECLARED}
    assert rules["archive"] == ["Only with clean=archive", "Needed with clean=archive"]
    assert rules["where"] == ["Not with query"] and rules["clean"] == ["Streams only"]
    assert rules["sep"] == ["Only with format=csv", "Also called delimiter"]
    assert rules["client"] == ["Also fast for protocol"]


def test_declarations_that_can_not_hold():
    with pytest.raises(ValueError, match="condition on 'b', which is none"):
        OptionSet([Option("a", "", needs=(when("b"),))])
    with pytest.raises(ValueError, match="twice"):
        OptionSet([Option("a", ""), Option("b", "", aliases=("A",))])
    with pytest.raises(TypeError, match="keeps its name"):
        common_option("delivery", kind="string")


def test_declarations_travel_with_what_was_parsed():
    plain = OptionSet(option for option in DECLARED if option.name != "zone")
    values = pickle.loads(pickle.dumps(plain.parse({"table": "t", "delimiter": ";"}, owner="t")))
    assert values["sep"] == ";"
