"""Checks built files before anyone installs them: tags, what the compiled part needs, and the index page."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from release.building import PURE, TARGETS
from release.packages import Package, ReleaseError

__all__ = ["check_pages", "check_wheel"]

_TIMEOUT_S = 300
_TAG = re.compile(r"(?P<kind>manylinux|musllinux)_(?P<version>\d+_\d+)_(?P<machine>\w+)")
#: What a compiled part may need of a system: its C library, and nothing else.
_LIBRARIES = {"libc.so.6", "libpthread.so.0", "libc.so", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"}


def check_wheel(package: Package, wheel: Path) -> str:
    """Returns one line on the wheel. Raises ReleaseError if its tag says more than it holds."""
    tag = wheel.stem.split("-", 2)[2]
    names = zipfile.ZipFile(wheel).namelist()
    compiled = [name for name in names if name.endswith(".so")]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        raise ReleaseError(f"{wheel.name} holds no license")
    if tag == f"py3-none-{PURE}":
        if compiled:
            raise ReleaseError(f"{wheel.name} is for every platform, and holds {compiled[0]}")
        return f"{wheel.name}: pure Python"
    target = next((one for one in TARGETS if tag == f"py3-none-{one.tag}"), None)
    if target is None or not package.is_compiled or len(compiled) != 1:
        raise ReleaseError(f"{wheel.name} is not a wheel that {package.name} should have")
    content = zipfile.ZipFile(wheel).read(compiled[0])
    elf = ELFFile(io.BytesIO(content))
    if elf["e_machine"] != target.machine:
        raise ReleaseError(f"{wheel.name} holds code for {elf['e_machine']}, not {target.machine}")
    needed: list[str] = []
    for part in elf.iter_sections():
        if isinstance(part, DynamicSection):
            needed += [entry.needed for entry in part.iter_tags("DT_NEEDED")]
    if strange := set(needed) - _LIBRARIES:
        raise ReleaseError(f"{wheel.name} needs {', '.join(sorted(strange))}, which its platform may lack")
    symbols = elf.get_section_by_name(".dynsym").iter_symbols()
    if not any(symbol.name == "penstock_source_hash" and symbol["st_shndx"] != "SHN_UNDEF" for symbol in symbols):
        raise ReleaseError(f"{wheel.name} holds a library without penstock_source_hash")
    found = _audited_tag(wheel)
    if not _covers(target.tag, found):
        raise ReleaseError(f"{wheel.name} is tagged {target.tag}, but auditwheel finds {found}")
    return f"{wheel.name}: auditwheel finds {found}; needs {', '.join(needed) or 'no library'}"


def check_pages(files: list[Path]) -> None:
    """Checks that an index can show the long descriptions. Raises ReleaseError if not."""
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])


def _audited_tag(wheel: Path) -> str:
    """Returns the platform tag for the oldest systems on which the wheel works, by auditwheel."""
    with tempfile.TemporaryDirectory() as nowhere:
        # Else it takes libraries of this machine, of another C library perhaps, for those that the wheel needs.
        show = [sys.executable, "-m", "auditwheel", "show", "--json", "--ldpaths", nowhere, str(wheel)]
        shown = json.loads(_run(show))
    # auditwheel knows musl's C library by Alpine's name alone. musl itself calls it libc.so, and loads it by that name
    # wherever it runs.
    is_musl = "musllinux" in wheel.name and set(shown["external_libs"]) == {"libc.so"}
    return str(shown["sym_tag" if is_musl else "overall_tag"])


def _covers(tag: str, found: str) -> bool:
    """Whether every system that has ``tag`` is one of those of ``found``: the same kind, and as old or older."""
    of_tag, of_found = (_TAG.fullmatch(one) for one in (tag, found))
    if of_tag is None or of_found is None:
        return False
    if any(of_tag[part] != of_found[part] for part in ("kind", "machine")):
        return False
    return _numbers(of_found) <= _numbers(of_tag)


def _numbers(tag: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in tag["version"].split("_"))


def _run(command: list[str]) -> str:
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
