"""Kills or stops a driver at chosen calls. Each Python process of the driver runs this file as it starts.

``FAULT_POINT`` is ``module:Class.method:before|half|after:n``, or several of them separated by ``;``. At the n-th such
call, counted over all processes of the run, this file kills the process group ``FAULT_GROUP`` (driver and JVM) and the
calling process. With ``FAULT_SCOPE=worker`` it kills only the calling process; with ``FAULT_ACTION=stop`` it stops
instead of killing.

A fifth part limits what counts. The path of an attribute of ``self`` (``…:2:_context.query_id``) counts calls for each
of its values. A text after ``~`` (``…:2:~/staged/``) counts only calls with an argument that contains the text.

``half`` is for methods that write their last argument: it writes half of it.

Counters are files whose names start with ``FAULT_COUNTER``. Each hit writes a line, the number of the point and the
process id, to the pipe ``FAULT_COUNTER.hit``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import operator
import os
import signal
import sys

TYPE_CHECKING = False  # the module typing takes time to load, in every process
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any


class _Point:
    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.module, qualified, self.when, nth, *key = text.split(":")
        self.class_name, self.method = qualified.split(".")
        self.nth = int(nth)
        self._part = key.pop()[1:] if key and key[0].startswith("~") else ""
        self._key: Any = operator.attrgetter(key[0]) if key else lambda _: ""

    def wrap(self, module: ModuleType) -> None:
        target = getattr(module, self.class_name)
        original = getattr(target, self.method)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            is_hit = self.when != "after" and self._is_hit(args)
            if is_hit and self.when == "half":
                original(*args[:-1], args[-1][: len(args[-1]) // 2], **kwargs)
                getattr(args[0], "flush", lambda: None)()
            if is_hit:
                self._strike()
            result = original(*args, **kwargs)
            if self.when == "after" and self._is_hit(args):
                self._strike()
            return result

        setattr(target, self.method, wrapped)

    def _is_hit(self, args: Sequence[Any]) -> bool:
        if self._part and not any(isinstance(one, str) and self._part in one for one in args):
            return False
        with open(f"{os.environ['FAULT_COUNTER']}.{self.number}{self._key(args[0])}", "ab") as counter:
            counter.write(b".")
            counter.flush()
            return counter.tell() == self.nth

    def _strike(self) -> None:
        action = signal.SIGSTOP if os.environ.get("FAULT_ACTION") == "stop" else signal.SIGKILL
        with_group = os.environ.get("FAULT_SCOPE") != "worker"  # else only this process: a lost task
        if with_group and action == signal.SIGSTOP:  # before the line: its reader relies on it
            os.killpg(int(os.environ["FAULT_GROUP"]), action)
        with open(os.environ["FAULT_COUNTER"] + ".hit", "w") as hit:
            hit.write(f"{self.number} {os.getpid()}\n")
        if with_group and action == signal.SIGKILL:
            os.killpg(int(os.environ["FAULT_GROUP"]), action)
        os.kill(os.getpid(), action)


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, points: list[_Point]) -> None:
        self._inner = inner
        self._points = points

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        for point in self._points:
            point.wrap(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, points: list[_Point]) -> None:
        self._points = points

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        points = [point for point in self._points if point.module == name]
        if not points:
            return None
        self._points = [point for point in self._points if point.module != name]
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader, points)
        return spec


if os.environ.get("FAULT_POINT"):
    import importlib.util

    # The driver is the first of its processes, and the others inherit the variable.
    os.environ.setdefault("FAULT_GROUP", str(os.getpgid(0)))
    sys.meta_path.insert(0, _Finder([_Point(*one) for one in enumerate(os.environ["FAULT_POINT"].split(";"))]))
