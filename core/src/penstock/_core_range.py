"""The range of cores that a plugin declares: the requirement ``penstock>=0.1,<0.2`` in the metadata of its package.

It is compared before anything of the plugin is imported: pip installs what does not fit if it is asked to.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import Distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock._version import __version__

__all__ = ["Package"]


@dataclass(frozen=True)
class Package:
    """The package that brings a plugin: its name and version, ``?`` if unknown, and what it asks of the core."""

    name: str
    version: str
    requirement: Requirement | None

    @classmethod
    def of(cls, distribution: Distribution | None) -> Package:
        """Parses the metadata once: a distribution does so for each thing that it is asked for."""
        if distribution is None:
            return cls("?", "?", None)
        metadata = distribution.metadata
        declared = map(Requirement, metadata.get_all("Requires-Dist") or distribution.requires or [])
        of_core = (one for one in declared if canonicalize_name(one.name) == "penstock" and one.marker is None)
        return cls(metadata["Name"], metadata["Version"], next(of_core, None))

    @property
    def core_range(self) -> str:
        """The range of cores that it fits; empty if it declares none."""
        return "" if self.requirement is None else str(self.requirement.specifier)

    def core_problem(self) -> str:
        """Returns why this core is outside the range, with both versions and what to install; empty if it fits."""
        if self.requirement is None:
            return ""
        wanted = self.requirement.specifier
        refusing = {one.operator for one in wanted if not one.contains(__version__, prereleases=True)}
        if not refusing:
            return ""
        other = "a newer" if refusing <= {"<", "<="} else "an older" if refusing <= {">", ">="} else "another"
        return (
            f"{self.name} {self.version} needs penstock{wanted}, and penstock {__version__} is installed: "
            f"pip install 'penstock{wanted}', or {other} {self.name}"
        )
