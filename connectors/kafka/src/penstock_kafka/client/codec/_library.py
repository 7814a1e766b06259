"""The compiled part and its functions."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path
from typing import Any

from penstock.native import NativeLibrary

__all__ = ["library", "native_problem", "native_usable"]

#: name -> (result, arguments)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "penstock_scan": (ct.c_int, [ct.c_void_p, ct.c_int64, ct.c_void_p]),
    "penstock_decode": (ct.c_int, [ct.c_void_p, ct.c_void_p]),
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


LIBRARY = NativeLibrary(
    Path(__file__).parent / "native",
    _FUNCTIONS,
    without="penstock-kafka reads and writes through librdkafka, about half as fast",
)


def native_problem() -> str:
    """Returns why the compiled part can't be used, in words for the user; empty if it can."""
    return LIBRARY.problem


def native_usable() -> bool:
    """Returns whether the compiled part can be used. If not, the first call of a process logs a warning."""
    return LIBRARY.usable()


def library() -> Any:
    """Returns the compiled part. Only where :func:`native_problem` is empty."""
    return LIBRARY.functions
