"""Put on PYTHONPATH by the tests: ends a driver with SIGKILL at a chosen call, in whatever Python process makes it.

``FAULT_POINT`` is ``module:Class.method:before|after:n``: at the n-th such call, counted over all processes of the run
in ``FAULT_COUNTER``, the process group ``FAULT_GROUP`` (driver and JVM) and the calling process are killed; with
``FAULT_SCOPE=worker`` only the latter; with ``FAULT_ACTION=stop`` they are stopped.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys


def _strike():
    with open(os.environ["FAULT_COUNTER"], "ab") as counter:
        counter.write(b".")
        counter.flush()
        count = counter.tell()
    if count != _nth:
        return
    with open(os.environ["FAULT_COUNTER"] + ".hit", "w") as hit:
        hit.write(str(os.getpid()))
    action = signal.SIGSTOP if os.environ.get("FAULT_ACTION") == "stop" else signal.SIGKILL
    if os.environ.get("FAULT_SCOPE") != "worker":  # else only this process: a lost task
        os.killpg(int(os.environ["FAULT_GROUP"]), action)
    os.kill(os.getpid(), action)


def _wrap(module):
    target = getattr(module, _class_name)
    original = getattr(target, _method)

    def wrapped(*args, **kwargs):
        if _when == "before":
            _strike()
        result = original(*args, **kwargs)
        if _when == "after":
            _strike()
        return result

    setattr(target, _method, wrapped)


class _Loader(importlib.abc.Loader):
    def __init__(self, spec):
        self._inner = spec.loader

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        self._inner.exec_module(module)
        _wrap(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != _module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        spec.loader = _Loader(spec)
        return spec


if os.environ.get("FAULT_POINT"):
    import importlib.util

    _module, _qualified, _when, _nth_text = os.environ["FAULT_POINT"].split(":")
    _class_name, _method = _qualified.split(".")
    _nth = int(_nth_text)
    sys.meta_path.insert(0, _Finder())
