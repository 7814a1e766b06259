"""Loads the compiled part and declares its functions to ctypes, which releases the interpreter while they run."""

from __future__ import annotations

import ctypes as ct
from functools import cache

from penstock_kafka.client.native._compile import LIBRARY, source_hash

__all__ = ["library", "native_problem"]

#: name -> (result, arguments)
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "penstock_source_hash": (ct.c_char_p, []),
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


@cache
def _load() -> tuple[ct.CDLL | None, str]:
    if not LIBRARY.exists():
        return None, "the package was installed without its compiled part (no C compiler at that time?)"
    try:
        loaded = ct.CDLL(str(LIBRARY))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return None, f"the compiled part can't be loaded: {error}"
    sources = source_hash()
    if sources and loaded.penstock_source_hash().decode() != sources:
        return None, (
            "the compiled part is not made of the C sources beside it: "
            "run python -m penstock_kafka.client.native._compile"
        )
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
