"""A release: versions, changelogs, commit, tags and files, made in a clone and taken over when all of it is done."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from release.bom import write_bom
from release.building import build_sdist, build_wheels, prepare
from release.changelog import add_section, fragments_of, section
from release.checking import check_pages, check_wheel
from release.packages import Package, ReleaseError, misfits, packages_of, set_version, wanted_versions
from release.provenance import CHECKSUMS, write_checksums, write_statement

__all__ = ["build", "preview", "release"]

Say = Callable[[str], None]


def release(root: Path, texts: list[str], out: Path, say: Say, *, repository: str, dry_run: bool) -> None:
    """Releases packages at versions, each as ``penstock-kafka=0.2.0``: files to ``out``, commit and tags to ``root``.

    With ``dry_run`` the commit and the tags are left out. Raises ReleaseError; then ``root`` is as before.
    """
    if _git(root, "status", "--porcelain"):
        raise ReleaseError("there are changes that are not committed: commit or stash them")
    tags = set(_git(root, "tag", "--list").split())
    branch = _git(root, "rev-parse", "--abbrev-ref", "HEAD")
    with tempfile.TemporaryDirectory() as scratch:
        clone = _clone(root, Path(scratch) / "clone")
        packages = packages_of(clone)
        wanted = wanted_versions(texts, packages, tags)
        day = _git(clone, "log", "-1", "--format=%cs")
        for name, version in wanted.items():
            _write_down(root, clone, packages[name], version, day)
            say(f"{name} {version}: {packages[name].directory.relative_to(clone)}/CHANGELOG.md is written")
        packages = packages_of(clone)
        if problems := misfits(packages):
            raise ReleaseError("\n".join(problems))
        _git(clone, "add", "--all")
        shown = ", ".join(f"{name} {version}" for name, version in wanted.items())
        _git(clone, "commit", "--quiet", "--message", f"Release {shown}")
        made = [packages[name] for name in wanted]
        for package in made:
            _git(clone, "tag", "--annotate", package.tag, "--message", f"{package.name} {package.version}")
            say(f"tagged {package.tag}")
        _build(clone, made, out, say, repository)
        if dry_run:
            say("dry run: neither the commit nor the tags are kept")
            return
        # The tags come last: if the branch has moved on meanwhile, none is left behind.
        _git(root, "fetch", "--quiet", "--no-tags", str(clone), "HEAD")
        _git(root, "merge", "--quiet", "--ff-only", "FETCH_HEAD")
        _git(root, "fetch", "--quiet", str(clone), *(f"refs/tags/{one.tag}:refs/tags/{one.tag}" for one in made))
        say(f"{branch} and the tags are ready: git push origin {branch} {' '.join(one.tag for one in made)}")


def build(root: Path, names: list[str], out: Path, say: Say, *, repository: str) -> None:
    """Builds the files of packages (all, if none is named) as committed, without releasing them."""
    with tempfile.TemporaryDirectory() as scratch:
        clone = _clone(root, Path(scratch) / "clone")
        packages = packages_of(clone)
        if unknown := set(names) - packages.keys():
            raise ReleaseError(f"'{min(unknown)}' is no package here: write {', '.join(packages)}")
        if _git(root, "status", "--porcelain"):
            say("changes that are not committed are left out")
        _build(clone, [packages[name] for name in names or packages], out, say, repository)


def preview(root: Path, names: list[str]) -> str:
    """Returns the sections that the next release of packages (all, if none is named) would get."""
    packages = packages_of(root)
    parts = []
    for name in names or packages:
        if name not in packages:
            raise ReleaseError(f"'{name}' is no package here: write {', '.join(packages)}")
        folder = root / "changelog.d"
        if fragments := fragments_of(folder, name):
            parts.append(f"# {name}\n\n{section(fragments, 'next', 'not released', folder)}")
    return "\n".join(parts)


def _write_down(root: Path, clone: Path, package: Package, version: str, day: str) -> None:
    fragments = fragments_of(clone / "changelog.d", package.name)
    if not fragments:
        raise ReleaseError(f"{package.name} has no fragment in changelog.d: there is nothing to release")
    set_version(package, version)
    add_section(package.directory / "CHANGELOG.md", section(fragments, version, day, package.directory))
    for path in fragments:
        path.unlink()
    # From now on the API is compared with what this release offers. The listing is the one that scripts/check holds.
    listed = clone / "docs" / "api" / f"{package.name}.txt"
    released = clone / "docs" / "api" / "released" / f"{package.name}.txt"
    released.parent.mkdir(exist_ok=True)
    shutil.copyfile(listed, released)


def _build(clone: Path, packages: Sequence[Package], out: Path, say: Say, repository: str) -> None:
    if out.exists() and any(out.iterdir()) and not (out / CHECKSUMS).exists():
        raise ReleaseError(f"{out} holds other files than those of a release: empty it, or give another --out")
    if not repository:
        say("no --repository: the index pages will have no links")
    epoch, commit = _git(clone, "log", "-1", "--format=%ct %H").split()
    fresh = clone.parent / "out"
    fresh.mkdir()
    for package in packages:
        scratch = clone.parent / f"building-{package.name}"
        sdist = build_sdist(prepare(package, scratch, repository), fresh, epoch)
        wheels = build_wheels(package, sdist, fresh, scratch / "wheels", epoch)
        say(f"{sdist.name}")
        for wheel in wheels:
            say(check_wheel(package, wheel))
        check_pages([sdist, *wheels])
        say(write_bom(package, [sdist, *wheels], fresh, epoch).name)
    requirements = clone / "tools" / "release" / "requirements.txt"
    write_statement(
        list(fresh.iterdir()),
        fresh,
        commit=commit,
        repository=repository,
        versions={package.name: package.version for package in packages},
        tools=requirements.read_text("utf-8").split(),
    )
    write_checksums(list(fresh.iterdir()), fresh)
    # As a whole, so that no file of another build stays beside these.
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(fresh, out)
    say(f"{len(list(out.iterdir()))} files are in {out}")


def _clone(root: Path, target: Path) -> Path:
    _git(root, "clone", "--quiet", "--no-hardlinks", ".", str(target))
    for key in ("user.name", "user.email"):
        _git(target, "config", key, _git(root, "config", "--default", "Penstock", "--get", key))
    return target


def _git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments[:3])} failed: {done.stderr.strip()}")
    return done.stdout.strip()
