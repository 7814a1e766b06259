"""The one sentence of a failure that matters, out of the traces of two languages."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["root_cause"]

_PENSTOCK_ERROR = re.compile(r"^(?:.*?Exception: )?penstock[\w.]*\.(\w+Error): (.*)", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit)): (.*)", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^Caused by: ([\w.$]+)(?:: (.*))?", re.MULTILINE)
_TRACE_LINE = re.compile(
    r"^(\s+at [\w.$/<>]+\(|\s*\.\.\. \d+ (more|elided)|Traceback \(most recent|  File \"|Caused by: "
    r"|Driver stacktrace|JVM stacktrace|==|During handling of the above|The above exception was)"
)
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+;?")
#: Spark's analyser puts the whole plan after the place in the query.
_BEFORE_PLAN = re.compile(r"; line \d+ pos \d+;$|SQLSTATE: \w+;$")
_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
#: Wrappers whose own text says nothing that their cause does not say better.
_WRAPPERS = ("org.apache.spark.SparkException", "org.apache.spark.api.python.PythonException")
_LONGEST = 12


def root_cause(error: BaseException) -> str:
    """Returns what went wrong, in a few lines: Penstock's own words if it is one of its errors, else the innermost
    cause.
    """
    text = str(error)
    if type(error).__module__.startswith("penstock."):
        return text
    described = [text, *_java_texts(error)]
    for pattern in (_PENSTOCK_ERROR, _PYTHON_ERROR):
        for candidate in described:
            found = list(pattern.finditer(candidate))
            if found:
                last = found[-1]
                message = _paragraph(candidate, last.start(2))
                return message if pattern is _PENSTOCK_ERROR else f"{last.group(1).rpartition('.')[2]}: {message}"
    for candidate in described:
        causes = [match for match in _JAVA_CAUSE.finditer(candidate) if match.group(1) not in _WRAPPERS]
        if causes:
            name = causes[-1].group(1).rpartition(".")[2]
            return f"{name}: {_paragraph(candidate, causes[-1].start(2)) if causes[-1].group(2) else ''}".rstrip(": ")
    plain = _paragraph(text, 0)
    return plain if _SPARK_CLASS.match(plain) else f"{type(error).__name__}: {plain}"


def _java_texts(error: BaseException) -> list[str]:
    """Returns the stack trace of the Java side, if there is one."""
    origin: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    traces: list[str] = []
    get_trace = getattr(error, "getStackTrace", None)
    if callable(get_trace):
        trace = get_trace()
        if trace:
            traces.append(str(trace))
    if origin is not None and hasattr(origin, "getCause"):
        cause = origin.getCause()
        for _ in range(_LONGEST):
            if cause is None:
                break
            traces.append(f"Caused by: {cause}")
            cause = cause.getCause()
    return traces


def _paragraph(text: str, start: int) -> str:
    """Returns the lines from ``start`` up to the next line of a trace or of a query plan."""
    lines: list[str] = []
    for line in text[start:].splitlines():
        if _TRACE_LINE.match(line) or len(lines) >= _LONGEST or (lines and not line.strip()):
            break
        lines.append(_SQL_STATE.sub("", line).rstrip())
        if _BEFORE_PLAN.search(line):
            break
    return "\n".join(lines).strip().rstrip(";")
