"""The range of cores that a plugin declares: the requirement ``penstock>=0.1,<0.2`` in the metadata of its package.

It is compared before anything of the plugin is imported: pip installs what does not fit if it is asked to.
"""

from __future__ import annotations

from importlib.metadata import Distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock._version import __version__

__all__ = ["core_problem", "core_range"]


def core_range(distribution: Distribution | None) -> str:
    """Returns the range of a plugin's package; empty if it declares none."""
    requirement = _requirement(distribution)
    return "" if requirement is None else str(requirement.specifier)


def core_problem(distribution: Distribution | None) -> str:
    """Returns why this core is outside the range, with both versions and what to install; empty if it fits."""
    requirement = _requirement(distribution)
    if distribution is None or requirement is None:
        return ""
    wanted = requirement.specifier
    refusing = {one.operator for one in wanted if not one.contains(__version__, prereleases=True)}
    if not refusing:
        return ""
    other = "a newer" if refusing <= {"<", "<="} else "an older" if refusing <= {">", ">="} else "another"
    return (
        f"{distribution.name} {distribution.version} needs penstock{wanted}, and penstock {__version__} is installed: "
        f"pip install 'penstock{wanted}', or {other} {distribution.name}"
    )


def _requirement(distribution: Distribution | None) -> Requirement | None:
    declared = [] if distribution is None else distribution.requires or []
    for requirement in map(Requirement, declared):
        if canonicalize_name(requirement.name) == "penstock" and requirement.marker is None:
            return requirement
    return None
