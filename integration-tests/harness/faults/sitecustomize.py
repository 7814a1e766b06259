"""Run by every Python process of a driver as it starts: ends or stops the driver at chosen calls, whoever makes them.

``FAULT_POINT`` is ``module:Class.method:before|half|after:n``, or several of them with ``;`` in between. At the n-th
such call, counted over all processes of the run, the process group ``FAULT_GROUP`` (driver and JVM) and the calling
process are killed; with ``FAULT_SCOPE=worker`` only the latter; with ``FAULT_ACTION=stop`` they are stopped. With a
fifth part, the path of an attribute of ``self`` (``…:2:_context.query_id``), calls are counted for each of its values;
if it begins with ``~`` (``…:2:~/staged/``), only calls count that have an argument with the rest of it in it.

``half`` is for methods that write their last argument: half of it is written.

Counters are files that start with ``FAULT_COUNTER``. Each hit is a line ``number-of-the-point pid`` in the pipe
``FAULT_COUNTER.hit``.
"""

import importlib
import importlib.abc
import importlib.machinery
import operator
import os
import signal
import sys


class _Point:
    def __init__(self, number, text):
        self.number = number
        self.module, qualified, self.when, nth, *key = text.split(":")
        self.class_name, self.method = qualified.split(".")
        self.nth = int(nth)
        self._part = key.pop()[1:] if key and key[0].startswith("~") else ""
        self._key = operator.attrgetter(key[0]) if key else lambda _: ""

    def wrap(self, module):
        target = getattr(module, self.class_name)
        original = getattr(target, self.method)

        def wrapped(*args, **kwargs):
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

    def _is_hit(self, args):
        if self._part and not any(isinstance(one, str) and self._part in one for one in args):
            return False
        with open(f"{os.environ['FAULT_COUNTER']}.{self.number}{self._key(args[0])}", "ab") as counter:
            counter.write(b".")
            counter.flush()
            return counter.tell() == self.nth

    def _strike(self):
        action = signal.SIGSTOP if os.environ.get("FAULT_ACTION") == "stop" else signal.SIGKILL
        with_group = os.environ.get("FAULT_SCOPE") != "worker"  # else only this process: a lost task
        if with_group and action == signal.SIGSTOP:  # who reads the line may rely on it
            os.killpg(int(os.environ["FAULT_GROUP"]), action)
        with open(os.environ["FAULT_COUNTER"] + ".hit", "w") as hit:
            hit.write(f"{self.number} {os.getpid()}\n")
        if with_group and action == signal.SIGKILL:
            os.killpg(int(os.environ["FAULT_GROUP"]), action)
        os.kill(os.getpid(), action)


class _Loader(importlib.abc.Loader):
    def __init__(self, spec, points):
        self._inner = spec.loader
        self._points = points

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        self._inner.exec_module(module)
        for point in self._points:
            point.wrap(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, points):
        self._points = points

    def find_spec(self, name, path, target=None):
        points = [point for point in self._points if point.module == name]
        if not points:
            return None
        self._points = [point for point in self._points if point.module != name]
        spec = importlib.util.find_spec(name)
        spec.loader = _Loader(spec, points)
        return spec


if os.environ.get("FAULT_POINT"):
    import importlib.util

    # The driver is the first of its processes, and the others inherit it.
    os.environ.setdefault("FAULT_GROUP", str(os.getpgid(0)))
    sys.meta_path.insert(0, _Finder([_Point(*one) for one in enumerate(os.environ["FAULT_POINT"].split(";"))]))
