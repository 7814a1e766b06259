"""Decoders with a fault each: what the fuzzer must notice. Its tests put this in place of the registry."""

from __future__ import annotations

import ctypes

from fuzz.target import Target

__all__ = ["TARGETS"]


def _if_hostile(data: bytes) -> bool:
    return data == b"hostile"


def _crash(data: bytes) -> None:
    if _if_hostile(data):
        ctypes.string_at(8)


def _hang(data: bytes) -> None:
    while _if_hostile(data):
        pass


def _memory(data: bytes) -> None:
    if _if_hostile(data):
        bytearray(4 << 30)


def _wrong_error(data: bytes) -> None:
    if _if_hostile(data):
        raise KeyError("of the code's own")


def _error(data: bytes) -> None:
    if _if_hostile(data):
        raise ValueError("somewhere")


def _long(data: bytes) -> None:
    if _if_hostile(data):
        raise ValueError("x" * 5000)


def _fine(data: bytes) -> None:
    """Takes everything."""


def _target(name: str, run: object, **more: object) -> Target:
    return Target(name, run, lambda: [b"seed"], (), inputs=lambda: [b"hostile"], errors=(ValueError,), **more)  # type: ignore[arg-type]


TARGETS = [
    _target("crash", _crash),
    _target("fine", _fine),
    _target("hang", _hang, cpu_s=0.5),
    _target("memory", _memory),
    _target("wrong_error", _wrong_error),
    _target("no_place", _error, where="part.csv"),
    _target("long", _long),
    Target("taken", _fine, lambda: [b"seed"], (), refused=lambda: [b"hostile"]),
]
