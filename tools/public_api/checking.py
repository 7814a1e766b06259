"""The workspace's packages, their stored listings, and what is wrong with them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from public_api.announced import read_fragments, unannounced
from public_api.differences import Difference, compare
from public_api.documented import undocumented
from public_api.listing import Listing, list_package, offered_by, parse_listing, render_listing
from public_api.loading import load_packages

__all__ = ["Workspace"]


class Workspace:
    """``core`` and ``connectors/*`` below ``root``; each has one package in ``src``. Read once, when it is made."""

    def __init__(self, root: Path) -> None:
        self._root = root
        folders = [folder / "src" for folder in (root / "core", *sorted((root / "connectors").glob("*")))]
        self._modules = load_packages([folder for folder in folders if folder.is_dir()])
        offered = offered_by(self._modules.values())
        self._texts = {
            _for_pip(name): render_listing(_for_pip(name), list_package(module, offered))
            for name, module in self._modules.items()
        }

    @property
    def packages(self) -> list[str]:
        """Their names for pip."""
        return sorted(self._texts)

    def stored(self, package: str) -> Path:
        """Where the listing of ``package`` is kept."""
        return self._root / "docs" / "api" / f"{package}.txt"

    def released(self, package: str) -> Path:
        """Where the listing of its last release is kept; there is no file if there was none."""
        return self._root / "docs" / "api" / "released" / f"{package}.txt"

    def update(self) -> None:
        """Writes the listings anew; those of packages that are gone are removed."""
        for path in self.stored("*").parent.glob("*.txt"):
            path.unlink()
        for package, text in self._texts.items():
            _write(self.stored(package), text)

    def release(self, package: str) -> None:
        """Makes today's listing of ``package`` the one to compare with. Raises LookupError for an unknown package."""
        if package not in self._texts:
            raise LookupError(f"there is no package '{package}': {', '.join(self.packages)}")
        _write(self.released(package), self._texts[package])

    def problems(self) -> list[str]:
        """What is to be done, in words; empty if nothing is."""
        return [problem for package in self.packages for problem in self._problems(package)]

    def _problems(self, package: str) -> Iterator[str]:
        yield from undocumented(self._modules[package.replace("-", "_")])
        yield from self._outdated(package)
        yield from self._second_homes(package)
        fragments = read_fragments(self._root / "changelog.d", package)
        for difference in unannounced(self.differences(package), fragments):
            yield f"{difference.path}: {difference.words}: {_what_to_do(difference, package)}"

    def differences(self, package: str) -> list[Difference]:
        """What changed since the last release; everything is new where there was none."""
        return compare(self._last_release(package), parse_listing(self._texts[package]))

    def _last_release(self, package: str) -> Listing:
        released = self.released(package)
        return parse_listing(released.read_text("utf-8")) if released.exists() else {}

    def _second_homes(self, package: str) -> Iterator[str]:
        """A name that users have from a release may stay where it was, although the thing has moved."""
        former = self._last_release(package)
        for path, what in parse_listing(self._texts[package]).items():
            if what.startswith("same as ") and path not in former:
                yield f"{path}: is {what}: a public name has one home, so take it out of one of the two `__all__`"

    def _outdated(self, package: str) -> Iterator[str]:
        path = self.stored(package)
        stored = path.read_text("utf-8") if path.exists() else ""
        if stored != self._texts[package]:
            lines = difflib.unified_diff(stored.splitlines(), self._texts[package].splitlines(), n=0, lineterm="")
            changes = "\n".join(f"  {line}" for line in list(lines)[2:] if not line.startswith("@@"))
            yield (
                f"{path.relative_to(self._root)} is not what the code offers. "
                f"If that is meant, run scripts/api --update and commit it:\n{changes}"
            )


def _for_pip(name: str) -> str:
    return name.replace("_", "-")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _what_to_do(difference: Difference, package: str) -> str:
    if difference.kind == "breaking":
        name = difference.path.rpartition(".")[2]
        return f"it can break code: write changelog.d/{package}.WORD.changed.md (or .removed.md) that names `{name}`"
    return f"write changelog.d/{package}.WORD.added.md (or .changed.md)"
