"""Whatever the code that reads stored forms runs into is one kind of error, and its memory has a limit."""

from __future__ import annotations

import json
import zlib

import pytest

from penstock.errors import BadDataError, FatalError
from penstock.serialization import JsonSerializer, inflated, malformed_is_bad_data, shortened


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[]", "5", '{"a": "x"}', '{"a": 1e999}', "\ud800", "9" * 5000])
def test_whatever_is_damaged_is_bad_data_that_says_where(text):
    said = r"^the place is damaged \(.*\): put it back from a copy\n\[PENSTOCK-CORE-030\]$"
    with pytest.raises(BadDataError, match=said), malformed_is_bad_data("the place"):
        int(json.loads(text.encode("utf-8", "surrogatepass"))["a"])


@pytest.mark.parametrize("damaged", [[], {}, "text", None, {"a": {}}])
def test_what_python_says_of_the_reading_code_is_not_told(damaged):
    with pytest.raises(BadDataError) as raised, malformed_is_bad_data("the place"):
        damaged["a"].strip()
    reason = str(raised.value).partition("(")[2].partition(")")[0]
    assert reason in ("it does not have the form that belongs there", "'a' is missing in it")


def test_other_errors_pass():
    for error in (FatalError("newer"), OSError("away"), MemoryError()):
        with pytest.raises(type(error)), malformed_is_bad_data("the place"):
            raise error


def test_a_serializer_refuses_bytes_that_it_has_not_written():
    serializer = JsonSerializer(2, lambda value: {"n": value}, lambda version, fields: int(fields["n"]))
    assert serializer.deserialize(1, b'{"n": 5}') == 5
    for data in (b"", b"\xff", b"[]", b'{"n": null}', b"[" * 100_000):
        with pytest.raises(BadDataError, match="a stored form of version 1"):
            serializer.deserialize(1, data)


def test_what_is_deflated_has_a_limit():
    packed = zlib.compress(bytes(1000))
    assert inflated(packed, 1000) == bytes(1000)
    for data, most in ((packed, 999), (packed[:-1], 1000)):
        with pytest.raises(ValueError, match="decompressed"):
            inflated(data, most)


def test_messages_hold_a_part_of_a_long_text():
    assert shortened("short") == "short"
    assert shortened("x" * 300) == "x" * 200 + "…"
    assert shortened("abcdef", 3) == "abc…"
