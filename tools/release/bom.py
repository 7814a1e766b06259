"""The bill of materials of a package in CycloneDX's form: its files, and what it asks for, with ranges.

An installation decides on the versions of dependencies; the bill of a library can only say which it accepts.
"""

from __future__ import annotations

import hashlib
import uuid
import zipfile
from datetime import datetime, timezone
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

from release.packages import Package, ReleaseError

__all__ = ["write_bom"]

_SPACE = uuid.UUID("5f1c2b1e-6f0e-4bb1-9d5c-0b6a6f0a2c11")


def write_bom(package: Package, files: list[Path], out: Path, epoch: str) -> Path:
    """Writes the bill of a package whose built files are ``files`` into the directory ``out``."""
    wheel = next(path for path in files if path.suffix == ".whl")
    described = _metadata(wheel)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}
    root = Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        description=str(described["Summary"]),
        licenses=[LicenseFactory().make_from_string(str(described["License-Expression"]))],
        purl=PackageURL("pypi", None, package.name, package.version),
        bom_ref=package.name,
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(name),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
            )
            for name, digest in digests.items()
        ],
    )
    needed: dict[str, Component] = {}
    for text in described.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        is_extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if is_extra and requirement.name in needed:
            continue
        needed[requirement.name] = Component(
            type=ComponentType.LIBRARY,
            name=requirement.name,
            purl=PackageURL("pypi", None, requirement.name),
            bom_ref=f"needs/{requirement.name}",
            scope=ComponentScope.OPTIONAL if is_extra else ComponentScope.REQUIRED,
            properties=[Property(name="penstock:range", value=str(requirement.specifier) or "any")],
        )
    bom = Bom(components=needed.values(), serial_number=uuid.uuid5(_SPACE, " ".join(digests.values())))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(epoch), timezone.utc)
    bom.register_dependency(root, needed.values())
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ReleaseError(f"the bill of materials of {package.name} is not CycloneDX: {problem}")
    target = out / f"{package.name.replace('-', '_')}-{package.version}.cdx.json"
    target.write_text(text + "\n", "utf-8")
    return target


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))
