"""The one sentence of a failure that matters, out of the traces of two languages."""

from __future__ import annotations

import errno
import os
import re
import traceback
from typing import Any

from penstock._error_book import CODE, code_for
from penstock.error_codes import ENGINE_FAILED, FUNCTION_FAILED, NOT_WRITABLE, STORE_CREDENTIALS
from penstock.options import without_credentials

__all__ = ["carries_ours", "explain", "root_cause"]

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
#: A line of such a plan: an operator, or one below another.
_PLAN_LINE = re.compile(r"\s*(?:[:+|]\s*)*[+:]- |~?[A-Z]\w+ \[|'[A-Z]\w+ ")
_SPARK_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
#: By class of Spark's errors: where its own advice begins, what to say in its place, and whether that is only right for
#: our formats. On tables that are not found, Spark's advice is about catalogs and about DROP, and takes five lines.
_INSTEAD = {
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE": (". Please use", "write .mode('append') before .save()", True),
    "REQUIRES_SINGLE_PART_NAMESPACE": (
        ", but got",
        "a format is no table: read it with spark.read.format, or CREATE TEMPORARY VIEW … USING it",
        True,
    ),
    "TABLE_OR_VIEW_NOT_FOUND": (". Verify", "correct the name, or make the view or table first", False),
}
#: Wrappers whose own text says nothing that their cause does not say better.
_WRAPPERS = ("org.apache.spark.SparkException", "org.apache.spark.api.python.PythonException")
_LONGEST = 12
#: In what Spark says of a failure: a class of ours, or a file of ours in a trace.
_OURS = re.compile(r"penstock\w*`?[./]")
_CODE_LINE = re.compile(rf"^\[({CODE.pattern})\]$")
#: A note of an earlier summary.
_SUMMARY = "penstock: "
_FRAME = re.compile(r"^\s*File \"([^\"\n]+)\", line (\d+), in (.+)$", re.MULTILINE)
#: Code that is not the user's.
_NOT_THEIRS = re.compile(
    r"[/\\](?:site-packages|dist-packages|pyspark|py4j|lib[/\\]python3[^/\\]*|penstock\w*)[/\\.]|^<|\.zip/"
)
_ERRNO = re.compile(r"^\[Errno (\d+)\] ([^:]*?)(?:: (.*))?$", re.DOTALL)
_ADVICE = {
    errno.ENOENT: "create it, or correct the path",
    errno.EACCES: "give this user the right to use it, or choose another path",
    errno.EPERM: "give this user the right to use it, or choose another path",
    errno.EROFS: "choose a path that can be written",
    errno.ENOTDIR: "a file stands where a directory is needed: choose another path",
    errno.EISDIR: "it is a directory: name a file",
    errno.EEXIST: "a file is there already: choose another path",
    errno.ENOSPC: "make room, then start again: it continues where it stopped",
    errno.EDQUOT: "make room, then start again: it continues where it stopped",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def explain(error: BaseException) -> str:
    """Returns what a person needs of an exception, in one or two lines: what went wrong, where, what to do, and the
    code, such as ``[PENSTOCK-KAFKA-003]``, for which ``penstock explain`` prints causes and remedies.

    ``error`` is one of ours, or one of Spark's that carries one of ours out of a worker or a query. Of any other
    exception it is the innermost cause, with the place in the code that raised it. Secrets in addresses are hidden.
    """
    text, code = _cause(error)
    text = without_credentials(text)
    return f"{text} [{code}]" if code else text


def carries_ours(error: BaseException) -> bool:
    """Returns whether ``error`` is one of ours, was raised in our code, here or in a worker, or is one of Spark's
    around an exception of the user's own.
    """
    module, text = type(error).__module__, str(error)
    if module.startswith("penstock") or _OURS.search(text) is not None:
        return True
    return module.startswith("pyspark") and "Traceback (most recent call last)" in text


def root_cause(error: BaseException) -> str:
    """Returns what went wrong, in a few lines: Penstock's own words if it is one of its errors, else the innermost
    cause.
    """
    return _cause(error)[0]


def _cause(error: BaseException) -> tuple[str, str]:
    """Returns the words and the code, which may be empty."""
    text = str(error)
    code = getattr(error, "error_code", "")
    if code or type(error).__module__.startswith("penstock."):
        return text, code
    described = [text, *_java_texts(error)]
    for candidate in described:
        found = list(_PENSTOCK_ERROR.finditer(candidate))
        if found:
            message, code = _without_code(_paragraph(candidate, found[-1].start(2)))
            return message, code or code_for("", (f"{found[-1].group(1)}Error", "PenstockError"))
    for candidate in described:
        found = list(_PYTHON_ERROR.finditer(candidate))
        if found:
            last = found[-1]
            frames = [(match[1], match[2], match[3]) for match in _FRAME.finditer(candidate[: last.start()])]
            return _foreign(last.group(1).rpartition(".")[2], _paragraph(candidate, last.start(2)), frames)
    for candidate in described:
        causes = [match for match in _JAVA_CAUSE.finditer(candidate) if match.group(1) not in _WRAPPERS]
        if causes:
            name = causes[-1].group(1).rpartition(".")[2]
            said = _paragraph(candidate, causes[-1].start(2)) if causes[-1].group(2) else ""
            return f"{name}: {said}".rstrip(": "), ENGINE_FAILED
    plain = _paragraph(text, 0)
    if (spark_class := _SPARK_CLASS.match(plain)) is not None:
        theirs, ours, only_for_ours = _INSTEAD.get(spark_class[1], ("", "", True))
        if ours and (not only_for_ours or _OURS.search(plain)):
            plain = f"{plain.partition(theirs)[0]}: {ours}"
        return plain, ENGINE_FAILED
    here = [(one.filename, str(one.lineno), one.name) for one in traceback.extract_tb(error.__traceback__)]
    return _foreign(type(error).__name__, plain, here)


def _without_code(message: str) -> tuple[str, str]:
    lines, code = [], ""
    for line in message.splitlines():
        if (found := _CODE_LINE.match(line.strip())) is not None:
            code = found[1]
        elif not line.startswith(_SUMMARY):
            lines.append(line)
    return "\n".join(lines).strip(), code


def _foreign(name: str, message: str, frames: list[tuple[str, str, str]]) -> tuple[str, str]:
    """Returns the words for an exception that is none of ours: with its place if that is in the user's own code."""
    in_storage = any(_is_ours(frame[0]) and "storage" in frame[0] for frame in frames)
    if in_storage and name in ("PermissionError", "FileNotFoundError") and not message.startswith("[Errno"):
        return message, STORE_CREDENTIALS if name == "PermissionError" else NOT_WRITABLE
    system = _ERRNO.match(message)
    theirs = [frame for frame in frames if not _NOT_THEIRS.search(frame[0])]
    if theirs and not (frames and _is_ours(frames[-1][0])):
        file, line, function = theirs[-1]
        where = "" if function == "<module>" else f", in {function}"
        return f"{name}: {message} ({os.path.basename(file)}, line {line}{where})", FUNCTION_FAILED
    if system is not None and system[3] and any(_is_ours(frame[0]) for frame in frames):
        advice = _ADVICE.get(int(system[1]), "look at the path and its file system")
        return f"{system[3].strip(chr(39))}: {system[2]}: {advice}", NOT_WRITABLE
    return f"{name}: {message}", ""


def _is_ours(file: str) -> bool:
    return re.search(r"[/\\]penstock\w*[/\\]", file) is not None


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
        if lines and lines[-1].endswith(";") and _PLAN_LINE.match(line):
            break
        if _TRACE_LINE.match(line) or len(lines) >= _LONGEST or (lines and not line.strip()):
            break
        lines.append(_SQL_STATE.sub("", line).rstrip())
        if _BEFORE_PLAN.search(line):
            break
    return "\n".join(lines).strip().rstrip(";")
