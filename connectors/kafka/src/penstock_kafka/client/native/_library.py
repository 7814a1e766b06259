"""Loads the compiled part and declares its functions to ctypes, which releases the interpreter while they run."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Mapping
from functools import cache

from penstock_kafka.client._problems import Problem, bad_setting
from penstock_kafka.client.native._compile import LIBRARY, source_hash

__all__ = ["NativeProblem", "library", "native_problem", "open_client"]

#: 2.6.0, as librdkafka counts versions.
OLDEST_LIBRDKAFKA = 0x02060000


class NativeProblem(ct.Structure):
    """``struct problem`` of common.h."""

    _fields_ = [
        ("code", ct.c_int32),
        ("partition", ct.c_int32),
        ("offset", ct.c_int64),
        ("size", ct.c_int64),
        ("fatal", ct.c_int32),
        ("name", ct.c_char * 64),
        ("topic", ct.c_char * 256),
        ("text", ct.c_char * 512),
    ]

    def read(self) -> Problem:
        """The same as a Python value."""
        return Problem(
            code=self.name.decode(),
            text=self.text.decode(errors="replace"),
            topic=self.topic.decode(errors="replace"),
            partition=self.partition,
            offset=self.offset,
            size=self.size,
            fatal=bool(self.fatal),
        )


_PROBLEM = ct.POINTER(NativeProblem)
_TEXTS = ct.POINTER(ct.c_char_p)

#: name -> (result, arguments)
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "penstock_source_hash": (ct.c_char_p, []),
    "penstock_bind": (ct.c_int, [ct.c_char_p, ct.c_char_p, ct.c_size_t]),
    "penstock_consumer_open": (ct.c_void_p, [_TEXTS, _TEXTS, ct.c_int, _PROBLEM]),
    "penstock_consumer_assign": (
        ct.c_int,
        [
            ct.c_void_p,
            _TEXTS,
            ct.POINTER(ct.c_int32),
            ct.POINTER(ct.c_int64),
            ct.POINTER(ct.c_int64),
            ct.c_int,
            ct.c_int,
            _PROBLEM,
        ],
    ),
    "penstock_consumer_poll": (
        ct.c_int,
        [ct.c_void_p, ct.c_int, ct.c_int, ct.c_int64, ct.c_void_p, _PROBLEM],
    ),
    "penstock_consumer_wake_up": (None, [ct.c_void_p]),
    "penstock_consumer_close": (None, [ct.c_void_p]),
    "penstock_crc32c": (ct.c_uint32, [ct.c_char_p, ct.c_size_t, ct.c_int]),
    "penstock_encoder_open": (ct.c_void_p, [ct.c_int64, ct.c_int64, ct.c_int64]),
    "penstock_encoder_set_topic": (ct.c_int32, [ct.c_void_p, ct.c_char_p, ct.c_size_t, ct.c_int32]),
    "penstock_encoder_encode": (ct.c_int, [ct.c_void_p, ct.c_void_p, ct.c_void_p, ct.c_int64, ct.c_void_p]),
    "penstock_encoder_take": (ct.c_int, [ct.c_void_p, ct.c_int32, ct.c_int32, ct.c_void_p]),
    "penstock_encoder_trim": (None, [ct.c_void_p, ct.c_int64]),
    "penstock_encoder_bytes": (ct.c_int64, [ct.c_void_p]),
    "penstock_batch_stamp": (
        None,
        [ct.c_void_p, ct.c_int64, ct.c_int, ct.c_int64, ct.c_int, ct.c_int32],
    ),
    "penstock_batch_part": (
        ct.c_int64,
        [ct.c_void_p, ct.c_int32, ct.c_int32, ct.c_void_p, ct.POINTER(ct.c_int64)],
    ),
    "penstock_encoder_limit": (None, [ct.c_void_p, ct.c_int64]),
    "penstock_encoder_close": (None, [ct.c_void_p]),
}


@cache
def _load() -> tuple[ct.CDLL | None, str]:
    if not LIBRARY.exists():
        return None, "the package was installed without its compiled part (no C compiler at that time?)"
    try:
        from confluent_kafka import cimpl

        loaded = ct.CDLL(str(LIBRARY))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError, ImportError) as error:
        return None, f"the compiled part can't be loaded: {error}"
    sources = source_hash()
    if sources and loaded.penstock_source_hash().decode() != sources:
        return None, (
            "the compiled part is not made of the C sources beside it: "
            "run python -m penstock_kafka.client.native._compile"
        )
    text = ct.create_string_buffer(512)
    version = loaded.penstock_bind(cimpl.__file__.encode(), text, len(text))
    if not version:
        return None, f"confluent-kafka's librdkafka can't be used: {text.value.decode(errors='replace')}"
    if version < OLDEST_LIBRDKAFKA:
        return None, f"confluent-kafka's librdkafka is too old ({version:#010x}): install confluent-kafka 2.6 or later"
    return loaded, ""


def native_problem() -> str:
    """Why the compiled part can't be used, in words for the user; empty if it can."""
    return _load()[1]


def library() -> ct.CDLL:
    """The compiled part. Only where :func:`native_problem` is empty."""
    loaded, problem = _load()
    if loaded is None:
        raise RuntimeError(problem)
    return loaded


def open_client(function: str, config: Mapping[str, str]) -> int:
    """A new client made by ``function``. Raises BadConfigurationError, with a setting's name but never its value."""
    count = len(config)
    names = (ct.c_char_p * count)(*(name.encode() for name in config))
    values = (ct.c_char_p * count)(*(value.encode() for value in config.values()))
    problem = NativeProblem()
    handle: int | None = getattr(library(), function)(names, values, count, ct.byref(problem))
    if not handle:
        raise bad_setting(problem.read(), config)
    return handle
