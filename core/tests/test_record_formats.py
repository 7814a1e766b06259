"""Record formats by name, bytes, text and functions."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError
from penstock.serialization.formats import FORMAT_OPTIONS, RecordFormat, create_decoder, create_encoder, find_format


@pytest.fixture
def functions(monkeypatch):
    module = ModuleType("penstock_tests_own_functions")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def binary(values):
    return pa.array(values, pa.binary())


def test_every_built_in_format_is_found_with_its_options():
    for name, options in FORMAT_OPTIONS.items():
        assert find_format(name).options == options


def test_an_unknown_format_is_refused_with_the_nearest_name():
    with pytest.raises(BadConfigurationError, match="did you mean 'json'"):
        create_decoder("jsn", {})
    with pytest.raises(BadConfigurationError, match=r"'package\.module:function'"):
        create_decoder("x" * 30, {})
    with pytest.raises(BadConfigurationError, match=r"format string has no option 'charst'; did you mean 'charset'"):
        create_decoder("string", {"charst": "x"})


def test_formats_of_entry_points(monkeypatch, functions):
    from importlib.metadata import EntryPoint

    class Reversed(RecordFormat):
        def create_decoder(self, options, type):
            return create_decoder("binary", {})

    functions.Reversed = Reversed
    functions.double = lambda values: pc.binary_join_element_wise(values, values, b"")
    functions.number = 3
    found = [
        EntryPoint(name, f"{functions.__name__}:{attribute}", "penstock.formats")
        for name, attribute in [("mine", "Reversed"), ("twice", "double"), ("wrong", "number"), ("gone", "nothing")]
    ]
    monkeypatch.setattr("penstock.serialization.formats._registry.entry_points", lambda group: found)
    assert create_decoder("mine", {}).type == pa.binary()
    assert create_decoder("twice", {}).decode(binary([b"a"])).column.to_pylist() == [b"aa"]
    with pytest.raises(BadConfigurationError, match="Reversed can't encode"):
        create_encoder("mine", {}, pa.string())
    with pytest.raises(BadConfigurationError, match="neither a RecordFormat class nor a function"):
        create_decoder("wrong", {})
    with pytest.raises(BadConfigurationError, match="can't be imported: AttributeError"):
        create_decoder("gone", {})
    with pytest.raises(BadConfigurationError, match="did you mean 'twice'"):
        create_decoder("twic", {})


def test_a_format_for_another_core_is_named_and_not_imported(monkeypatch, tmp_path):
    info = tmp_path / "penstock_words-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: penstock-words\nVersion: 3.1\nRequires-Dist: penstock>=7,<8\n"
    )
    (info / "entry_points.txt").write_text("[penstock.formats]\nwords = no_such_module:Words\n")
    monkeypatch.syspath_prepend(tmp_path)
    problem = r"penstock-words 3\.1 needs penstock<8,>=7, and penstock 0\..* is installed: pip install 'penstock<8,>=7'"
    with pytest.raises(BadConfigurationError, match=f"format 'words' can't be used: {problem}, or an older"):
        find_format("words")


def test_binary_is_the_bytes_as_they_are():
    decoder, encoder = create_decoder("binary", {}), create_encoder("binary", {}, pa.string())
    values = binary([b"\xff\0", None, b""])
    assert decoder.type == pa.binary()
    assert decoder.decode(values).column.equals(values)
    assert encoder.encode(pa.array(["é", None])).to_pylist() == ["é".encode(), None]
    with pytest.raises(BadConfigurationError, match="not to bigint"):
        create_decoder("binary", {}, pa.int64())
    with pytest.raises(BadConfigurationError, match="use json or avro"):
        create_encoder("binary", {}, pa.struct([("a", pa.int64())]))


@given(st.lists(st.none() | st.binary(max_size=12) | st.text(max_size=6).map(str.encode)))
def test_string_decodes_exactly_what_python_does(values):
    decoded = create_decoder("string", {}).decode(binary(values))
    errors = [None] * len(values) if decoded.errors is None else decoded.errors.to_pylist()
    assert decoded.errors is None or any(errors)
    for value, text, error in zip(values, decoded.column.to_pylist(), errors, strict=True):
        try:
            assert text == (None if value is None else value.decode()) and error is None
        except UnicodeDecodeError:
            assert text is None and error.startswith("not utf-8: ")


@pytest.mark.parametrize("charset", ["ISO-8859-1", "UTF-16", "US-ASCII", "windows-1252"])
def test_string_in_other_character_sets(charset):
    texts = pa.array(["plain", None, ""])
    encoded = create_encoder("string", {"charset": charset}, pa.string()).encode(texts)
    assert encoded.to_pylist() == [None if t is None else t.encode(charset) for t in texts.to_pylist()]
    decoder = pickle.loads(pickle.dumps(create_decoder("string", {"charset": charset})))
    assert decoder.decode(encoded).column.equals(texts)


def test_string_errors_name_the_row():
    with pytest.raises(BadDataError, match="row 2 of the batch"):
        create_encoder("string", {"charset": "ascii"}, pa.string()).encode(pa.array(["a", None, "é"]))
    decoded = create_decoder("string", {"charset": "ascii"}).decode(binary([b"a", "é".encode(), None]))
    assert decoded.column.to_pylist() == ["a", None, None]
    assert decoded.errors.is_valid().to_pylist() == [False, True, False]
    with pytest.raises(BadConfigurationError, match="'nope' is not a known character set"):
        create_decoder("string", {"charset": "nope"})


def test_string_keeps_the_wanted_type_and_slices():
    decoder = create_decoder("string", {}, pa.large_string())
    values = binary([b"x", b"\xff", b"y", None])
    assert decoder.decode(values).column.type == pa.large_string()
    assert decoder.decode(values.slice(2)).column.to_pylist() == ["y", None]


def test_a_function_loses_only_the_rows_it_raises_for(functions):
    calls = []

    def numbers(values):
        calls.append(len(values))
        assert not values.null_count
        return pa.array([int(value) for value in values.to_pylist()], pa.int32())

    functions.numbers = numbers
    decoder = pickle.loads(pickle.dumps(create_decoder(f"{functions.__name__}:numbers", {})))
    assert decoder.type == pa.int32()
    rows = [str(n).encode() for n in range(1000)]
    rows[10], rows[500], rows[501] = b"bad", None, b"worse"
    calls.clear()
    decoded = decoder.decode(binary(rows))
    expected = [None if n in (10, 500, 501) else n for n in range(1000)]
    assert decoded.column.to_pylist() == expected
    assert decoded.errors.is_valid().to_pylist() == [n in (10, 501) for n in range(1000)]
    assert decoded.errors[501].as_py().startswith("ValueError: ") and "worse" in decoded.errors[501].as_py()
    assert len(calls) < 70  # parts of the batch, not every row
    assert decoder.decode(binary([])).column.type == pa.int32()
    assert decoder.decode(binary([None])).column.to_pylist() == [None]


def test_a_function_as_an_encoder(functions):
    functions.encode = lambda column: binary([b"%d" % (100 // n) for n in column.to_pylist()])
    encoder = create_encoder(f"{functions.__name__}:encode", {}, pa.int64())
    assert encoder.encode(pa.array([1, None, 50])).to_pylist() == [b"100", None, b"2"]
    with pytest.raises(BadDataError, match="row 2 of the batch can't be written: ZeroDivisionError"):
        encoder.encode(pa.array([1, None, 0, 0]))


def test_a_function_that_is_wrong_stops_the_query(functions):
    functions.short = lambda values: values.slice(0, 0)
    functions.text = lambda values: "text"
    functions.away = lambda values: (_ for _ in ()).throw(RetriableError("the service is down"))
    functions.chunked = lambda values: pa.chunked_array([values, values.slice(0, 0)])
    name = functions.__name__
    with pytest.raises(FatalError, match="got 1 values and returned 0 values"):
        create_decoder(f"{name}:short", {}, pa.binary()).decode(binary([b"a"]))
    with pytest.raises(BadConfigurationError, match=r"failed: .*returned str"):
        create_decoder(f"{name}:text", {})
    with pytest.raises(RetriableError, match="is down"):
        create_decoder(f"{name}:away", {}, pa.int64()).decode(binary([b"a", b"b"]))
    assert create_decoder(f"{name}:chunked", {}).decode(binary([b"a"])).column.to_pylist() == [b"a"]
    with pytest.raises(BadConfigurationError, match="can't be imported: ModuleNotFoundError"):
        create_decoder("no_such_package.module:function", {})
    with pytest.raises(BadConfigurationError, match="has no option 'x'"):
        create_decoder(f"{name}:chunked", {"x": "1"})


def test_a_function_result_is_cast_to_the_wanted_type_row_by_row(functions):
    functions.numbers = lambda values: pa.array([int(v) for v in values.to_pylist()], pa.int64())
    decoded = create_decoder(f"{functions.__name__}:numbers", {}, pa.int8()).decode(binary([b"1", b"1000", b"3"]))
    assert decoded.column.equals(pa.array([1, None, 3], pa.int8()))
    assert decoded.errors.is_valid().to_pylist() == [False, True, False]
