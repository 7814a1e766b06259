"""The structures of the Arrow C data interface, as ctypes sees them."""

from __future__ import annotations

import ctypes as ct

__all__ = ["ArrowArray", "ArrowSchema", "release"]


class ArrowArray(ct.Structure):
    """``struct ArrowArray``."""

    _fields_ = [
        *((name, ct.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
        *((name, ct.c_void_p) for name in ("buffers", "children", "dictionary", "release", "private_data")),
    ]


class ArrowSchema(ct.Structure):
    """``struct ArrowSchema``."""

    _fields_ = [
        *((name, ct.c_void_p) for name in ("format", "name", "metadata")),
        *((name, ct.c_int64) for name in ("flags", "n_children")),
        *((name, ct.c_void_p) for name in ("children", "dictionary", "release", "private_data")),
    ]


def release(exported: ArrowArray | ArrowSchema) -> None:
    """Gives an exported structure back, as its reader must."""
    if exported.release:
        ct.CFUNCTYPE(None, ct.c_void_p)(exported.release)(ct.addressof(exported))
