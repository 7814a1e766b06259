"""Formats by name: the built-in ones, those of entry points, and plain functions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

import pyarrow as pa

from penstock._core_range import Package
from penstock.errors import BadConfigurationError
from penstock.options import Mode, OptionValues, load_object, names_object, nearest_hint
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._function import FunctionFormat

__all__ = ["check_options", "create_decoder", "create_encoder", "find_format"]

GROUP = "penstock.formats"

#: Imported when asked for: avro and protobuf need packages that are extras.
_BUILT_IN = {
    "binary": "penstock.serialization.formats._text:BinaryFormat",
    "string": "penstock.serialization.formats._text:StringFormat",
    "json": "penstock.serialization.formats._json:JsonFormat",
    "avro": "penstock.serialization.formats._avro:AvroFormat",
    "protobuf": "penstock.serialization.formats._protobuf:ProtobufFormat",
    "debezium": "penstock.serialization.formats._debezium:DebeziumFormat",
}


def create_decoder(name: str, options: Mapping[str, str], type: pa.DataType | None = None) -> RecordDecoder:
    """Returns a decoder of the format ``name``: built in, of an entry point, or a function ``package.module:function``.

    ``type`` is what the column should be: needed by json, a check (and cast) elsewhere. ``options`` are the format's,
    without a connector's prefix. Raises BadConfigurationError for what does not fit, RetriableError where a schema
    registry does not answer. Driver.
    """
    format_, values = check_options(name, options, "reading")
    return format_.create_decoder(values, type)


def create_encoder(name: str, options: Mapping[str, str], type: pa.DataType | None = None) -> RecordEncoder:
    """Returns an encoder for columns of ``type``; otherwise as :func:`create_decoder`."""
    format_, values = check_options(name, options, "writing")
    return format_.create_encoder(values, type)


def check_options(name: str, options: Mapping[str, str], mode: Mode) -> tuple[RecordFormat, OptionValues]:
    """Returns the format and its options, checked. Raises BadConfigurationError for an unknown format, and for options
    that it does not take.
    """
    format_ = find_format(name)
    return format_, format_.options.parse(options, owner=f"format {name}", mode=mode)


def find_format(name: str) -> RecordFormat:
    """Returns the format ``name``. Raises BadConfigurationError for an unknown one, with the nearest name."""
    if name in _BUILT_IN:
        return _instance(name, _BUILT_IN[name])
    if names_object(name):
        return _instance(name, name)
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in installed:
        if problem := Package.of(installed[name].dist).core_problem():
            raise BadConfigurationError(f"format '{name}' can't be used: {problem}")
        return _instance(name, installed[name].value)
    names = sorted({*_BUILT_IN, *installed})
    near = nearest_hint(name, names) or f"; there are {', '.join(names)}, and functions as 'package.module:function'"
    raise BadConfigurationError(f"no record format '{name}' is installed{near}")


def _instance(name: str, reference: str) -> RecordFormat:
    found = load_object(f"format {name}", reference)
    if isinstance(found, type) and issubclass(found, RecordFormat):
        return found()
    if callable(found):
        return FunctionFormat(reference)
    raise BadConfigurationError(f"format {name}: {reference} is neither a RecordFormat class nor a function")
