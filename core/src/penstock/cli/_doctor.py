"""``penstock doctor``: looks at everything a run needs, and says how to fix what is wrong. Starts no Spark."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from packaging.requirements import Requirement
from packaging.version import Version

from penstock._plugins import installed_connectors
from penstock._version import __version__
from penstock.cli._bytecode import add_bytecode, archives_without_bytecode
from penstock.cli._list import list_connectors
from penstock.cli._plugins import HOW_TO_GET_ONE
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.native import NativeLibrary

__all__ = ["Finding", "examine", "java_problem", "show_health"]

OK, ODD, BAD = "ok", "odd", "bad"
_LEAST_JAVA = 17
_JAVA_SECONDS = 20


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ``verdict`` is ``ok``, ``odd`` (may hurt) or ``bad`` (won't work), ``remedy`` what to do."""

    what: str
    verdict: str
    text: str
    remedy: str = ""


def examine(environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Returns every finding, in the order in which things are needed."""
    env = os.environ if environment is None else environment
    checks: list[Callable[[Mapping[str, str]], Iterator[Finding]]] = [
        _python,
        _java,
        _packages,
        _bytecode,
        _worker_python,
        _connectors,
        _compiled_parts,
        _time_zones,
        _network,
        _temporary_space,
    ]
    return [finding for check in checks for finding in check(env)]


def show_health(*, as_json: bool, fix: bool = False) -> int:
    """The command. Exit code 1 if something is bad. With ``fix``, fixes what it can first."""
    if fix:
        _add_bytecode(os.environ)
    findings = examine()
    if as_json:
        say_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    return 1 if any(finding.verdict == BAD for finding in findings) else 0


def _print(findings: list[Finding]) -> None:
    console = Screen()
    marks = {OK: "[green]✓[/]", ODD: "[yellow]![/]", BAD: "[red]✗[/]"}
    for finding in findings:
        what, text = as_text(finding.what), as_text(finding.text)
        console.print(f"{marks[finding.verdict]} [bold]{what}[/]  {text}", soft_wrap=True)
        if finding.remedy:
            console.print(f"    [dim]→[/] {as_text(finding.remedy)}", soft_wrap=True)
    bad = sum(finding.verdict == BAD for finding in findings)
    odd = sum(finding.verdict == ODD for finding in findings)
    console.print()
    console.print(f"{bad} wrong, {odd} to look at" if bad or odd else "[green]all well[/]")


def _python(_: Mapping[str, str]) -> Iterator[Finding]:
    running = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("Python", OK, f"{running} ({sys.executable})")


def _java(env: Mapping[str, str]) -> Iterator[Finding]:
    home = env.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java", path=env.get("PATH"))
    remedy = (
        f"install Java {_LEAST_JAVA} or newer (such as openjdk-17-jre-headless), and let JAVA_HOME or PATH lead to it"
    )
    if java is None:
        yield Finding("Java", BAD, "there is no 'java' on PATH and JAVA_HOME is not set", remedy)
        return
    if home and not os.access(java, os.X_OK):
        yield Finding("Java", BAD, f"JAVA_HOME is {home}, but there is no bin/java in it", "correct or unset JAVA_HOME")
        return
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("Java", BAD, f"{java} does not run: {error}", remedy)
        return
    found = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', said.stderr + said.stdout)
    if found is None:
        yield Finding("Java", BAD, f"{java} -version says nothing that names a version", remedy)
    elif int(found.group(1)) < _LEAST_JAVA:
        yield Finding("Java", BAD, f"{java} is version {found.group(1)}, Spark needs {_LEAST_JAVA} or newer", remedy)
    else:
        yield Finding("Java", OK, f"{found.group(1)}{found.group(2)} ({java})")


def java_problem(environment: Mapping[str, str] | None = None) -> str:
    """Returns why Spark can't start, and what to do; empty if there is a Java that it runs on."""
    (finding,) = _java(os.environ if environment is None else environment)
    return f"{finding.text}: {finding.remedy}" if finding.verdict == BAD else ""


def _packages(_: Mapping[str, str]) -> Iterator[Finding]:
    yield Finding("penstock", OK, __version__)
    # Those of the extra "spark" as well: a platform's PySpark has to fit, too.
    ranges = {
        requirement.name: requirement.specifier
        for requirement in map(Requirement, requires("penstock") or [])
        if requirement.marker is None or requirement.marker.evaluate({"extra": "spark"})
    }
    for name in ("pyspark", "pyarrow"):
        wanted = ranges.get(name)
        remedy = f"pip install '{name}{wanted or ''}'"
        installed = _installed(name)
        if installed is None:
            yield Finding(name, BAD, "is not installed", remedy)
            continue
        if wanted is not None and not wanted.contains(installed, prereleases=True):
            yield Finding(name, BAD, f"{installed} is outside {wanted}", remedy)
        else:
            yield Finding(name, OK, installed)
    yield from _pandas()


def _installed(name: str) -> str | None:
    """Returns the version of a package, also of a platform's copy that pip knows nothing of."""
    try:
        return version(name)
    except PackageNotFoundError:
        pass
    try:
        return str(import_module(name).__version__)
    except ImportError:
        return None


def _pandas() -> Iterator[Finding]:
    try:
        installed = version("pandas")
    except PackageNotFoundError:
        return
    if Version(installed).major >= 3:
        yield Finding("pandas", ODD, f"{installed}: PySpark does not know pandas 3 yet", "pip install 'pandas<3'")
    else:
        yield Finding("pandas", OK, installed)


def _bytecode(env: Mapping[str, str]) -> Iterator[Finding]:
    if archives_without_bytecode(env):
        text = "PySpark's zip holds no bytecode: each of Spark's Python processes compiles it again, for about a second"
        yield Finding("start of workers", OK, text, "penstock doctor --fix, while no Spark runs here")


def _add_bytecode(env: Mapping[str, str]) -> None:
    for archive in archives_without_bytecode(env):
        try:
            add_bytecode(archive)
        except OSError as error:
            say(f"penstock: {archive} can't be replaced: {error.strerror or error}", error=True)


def _worker_python(env: Mapping[str, str]) -> Iterator[Finding]:
    named = env.get("PYSPARK_PYTHON")
    if not named:
        yield Finding("PYSPARK_PYTHON", OK, "not set: penstock lets local workers run this Python")
        return
    found = shutil.which(named, path=env.get("PATH"))
    remedy = f"unset it, or set it to {sys.executable}"
    if found is None:
        yield Finding("PYSPARK_PYTHON", BAD, f"is {named}, which can't be run", remedy)
        return
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run([found, "-c", code], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("PYSPARK_PYTHON", BAD, f"{named} does not run: {error}", remedy)
        return
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    theirs = said.stdout.strip()
    if theirs != here:
        text = f"is {named} (Python {theirs or '?'}), this is {here}: Spark refuses to mix them"
        yield Finding("PYSPARK_PYTHON", BAD, text, remedy)
    elif not os.path.samefile(found, sys.executable):
        text = f"is {named}, another Python than this one: connectors must be installed there too"
        yield Finding("PYSPARK_PYTHON", ODD, text, remedy)
    else:
        yield Finding("PYSPARK_PYTHON", OK, named)


def _connectors(_: Mapping[str, str]) -> Iterator[Finding]:
    listed = list_connectors()
    if not listed:
        yield Finding("connectors", ODD, HOW_TO_GET_ONE.partition(".")[0].lower(), HOW_TO_GET_ONE.partition(": ")[2])
    for one in listed:
        if one.problem:
            remedy = f"pip install --upgrade --force-reinstall {one.package}" if one.fits else ""
            yield Finding(one.format, BAD, f"{one.package} {one.version}: {one.problem}", remedy)
        else:
            yield Finding(one.format, OK, f"{one.package} {one.version}")


def _compiled_parts(_: Mapping[str, str]) -> Iterator[Finding]:
    for connector in installed_connectors():
        package = find_spec(connector.entry_point.module.partition(".")[0])
        if connector.problem or package is None or package.origin is None:
            continue
        for directory in sorted({path.parent for path in Path(package.origin).parent.rglob("native/*.c")}):
            if problem := NativeLibrary(directory, {}).problem:
                remedy = (
                    f"install {connector.distribution} from a wheel for this platform, or where there is a C compiler"
                )
                yield Finding(f"{connector.format}, compiled", ODD, f"{problem}: it works, more slowly", remedy)
            else:
                yield Finding(f"{connector.format}, compiled", OK, "its part in C is used")


def _time_zones(_: Mapping[str, str]) -> Iterator[Finding]:
    try:
        ZoneInfo("Europe/Berlin")
    except ZoneInfoNotFoundError:
        yield Finding("time zones", BAD, "this Python has no time zone data", "pip install tzdata")
    else:
        yield Finding("time zones", OK, "known")


def _network(env: Mapping[str, str]) -> Iterator[Finding]:
    address = env.get("SPARK_LOCAL_IP")
    name = address or socket.gethostname()
    what = "SPARK_LOCAL_IP" if address else "host name"
    try:
        resolved = socket.gethostbyname(name)
        with socket.socket() as listener:
            listener.bind((resolved, 0))
    except OSError as error:
        # `penstock run` binds to the loopback address by itself; your own job does not.
        verdict = BAD if address else ODD
        remedy = "set SPARK_LOCAL_IP=127.0.0.1 for jobs on one machine, or add the name to /etc/hosts"
        yield Finding(
            what, verdict, f"'{name}' is no address of this machine ({error}): a Spark driver can't bind", remedy
        )
    else:
        yield Finding(what, OK, f"{name} ({resolved})" if name != resolved else name)


def _temporary_space(env: Mapping[str, str]) -> Iterator[Finding]:
    for name in (env.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(","):
        try:
            with tempfile.TemporaryFile(dir=name) as file:
                file.write(b"penstock")
            free = shutil.disk_usage(name).free / (1 << 30)
        except OSError as error:
            remedy = "free or mount it, or let SPARK_LOCAL_DIRS (or TMPDIR) name another directory"
            yield Finding("temporary space", BAD, f"{name} can't be written: {error.strerror or error}", remedy)
            continue
        if free < 1:
            yield Finding(
                "temporary space", ODD, f"{name} has {free:.1f} GiB left", "free some: shuffles are kept there"
            )
        else:
            yield Finding("temporary space", OK, f"{name}, {free:.0f} GiB free")
