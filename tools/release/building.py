"""Builds a package: a source distribution, and from it a wheel for each platform and one without C.

Zig's C compiler, from a package of the index, compiles for each platform, with the libc that its tag names.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from release.packages import Package, ReleaseError

__all__ = ["PURE", "TARGETS", "Target", "build_sdist", "build_wheels", "prepare"]

_TIMEOUT_S = 600
#: The tag of a wheel for every platform.
PURE = "any"


@dataclass(frozen=True)
class Target:
    """A platform: its tag in a wheel, what Zig calls it, and the machine that the ELF header names."""

    tag: str
    triple: str
    machine: str


TARGETS = (
    Target("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", "EM_X86_64"),
    Target("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", "EM_AARCH64"),
    Target("musllinux_1_2_x86_64", "x86_64-linux-musl", "EM_X86_64"),
    Target("musllinux_1_2_aarch64", "aarch64-linux-musl", "EM_AARCH64"),
)
#: Optimized as in build.py; no debug information, and no symbols that nothing links to.
_FLAGS = "-g0 -Wl,-s"


def prepare(package: Package, scratch: Path, repository: str) -> Path:
    """Returns a copy of the package's sources with what belongs to every release: the license, and its links."""
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.so", "*.egg-info", "dist", "tests")
    copy = shutil.copytree(package.directory, scratch / package.name, ignore=ignored)
    shutil.copy(_root_of(package) / "LICENSE", copy)
    declared = copy / "pyproject.toml"
    text = declared.read_text("utf-8")
    if repository:
        where = package.directory.relative_to(_root_of(package)).as_posix()
        links = {
            "Homepage": repository,
            "Documentation": f"{repository}/tree/{package.tag}/docs",
            "Source": f"{repository}/tree/{package.tag}/{where}",
            "Changelog": f"{repository}/blob/{package.tag}/{where}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
        urls = "".join(f'{name} = "{link}"\n' for name, link in links.items())
        text = text.replace("[tool.poetry]\n", f"[project.urls]\n{urls}\n[tool.poetry]\n", 1)
    declared.write_text(text, "utf-8")
    return copy


def build_sdist(project: Path, out: Path, epoch: str) -> Path:
    """Builds the source distribution of ``project`` into ``out``. ``epoch``: the time of the files, in seconds."""
    return _build("--sdist", project, out, {"SOURCE_DATE_EPOCH": epoch})


def build_wheels(package: Package, sdist: Path, out: Path, scratch: Path, epoch: str) -> list[Path]:
    """Builds every wheel from the source distribution into ``out``: one, or with C one a target and one without."""
    if not package.is_compiled:
        project = _unpack(sdist, scratch / PURE)
        return [_build("--wheel", project, out, {"SOURCE_DATE_EPOCH": epoch})]
    wheels = []
    for target in TARGETS:
        compiler = shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", target.triple])
        environment = {"CC": compiler, "CFLAGS": _FLAGS, "PENSTOCK_COMPILED": "required", "SOURCE_DATE_EPOCH": epoch}
        built = _build("--wheel", _unpack(sdist, scratch / target.tag), scratch / f"built-{target.tag}", environment)
        wheels.append(_tagged(built, out, [target.tag], epoch))
    environment = {"PENSTOCK_COMPILED": "none", "SOURCE_DATE_EPOCH": epoch}
    built = _build("--wheel", _unpack(sdist, scratch / PURE), scratch / f"built-{PURE}", environment)
    wheels.append(_tagged(built, out, [PURE], epoch))
    return wheels


def _tagged(built: Path, out: Path, platforms: Iterable[str], epoch: str) -> Path:
    """Tags a wheel for every Python 3 on ``platforms``: ctypes loads the library, so no ABI of Python matters."""
    unpacked = built.parent / "unpacked"
    wheel = (sys.executable, "-m", "wheel")
    environment = {"SOURCE_DATE_EPOCH": epoch}
    _run([*wheel, "unpack", "--dest", str(unpacked), str(built)], environment)
    (content,) = unpacked.iterdir()
    (described,) = content.glob("*.dist-info/WHEEL")
    platforms = list(platforms)
    text = re.sub(r"^(Tag|Root-Is-Purelib): .*\n", "", described.read_text("utf-8"), flags=re.MULTILINE)
    text += f"Root-Is-Purelib: {'true' if platforms == [PURE] else 'false'}\n"
    text += "".join(f"Tag: py3-none-{platform}\n" for platform in platforms)
    described.write_text(text, "utf-8")
    before = set(out.glob("*.whl"))
    _run([*wheel, "pack", "--dest-dir", str(out), str(content)], environment)
    (packed,) = set(out.glob("*.whl")) - before
    return packed


def _unpack(sdist: Path, scratch: Path) -> Path:
    scratch.mkdir(parents=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    (project,) = scratch.iterdir()
    return project


def _build(kind: str, project: Path, out: Path, environment: dict[str, str]) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.iterdir())
    _run(
        [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(out), str(project)],
        environment,
    )
    (made,) = (path for path in set(out.iterdir()) - before if path.suffix in (".whl", ".gz"))
    return made


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _root_of(package: Package) -> Path:
    return next(parent for parent in package.directory.parents if (parent / "LICENSE").exists())
