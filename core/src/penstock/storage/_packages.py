"""Which package reaches a store, and the extra of penstock that brings it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

__all__ = ["Package", "missing_package", "package_of"]


@dataclass(frozen=True)
class Package:
    """What ``store`` needs: ``name`` is the package's at an index, ``module`` what is imported.

    ``extra`` is that of penstock, with which the names of the store's options begin, too.
    """

    store: str
    name: str
    module: str
    extra: str

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'penstock[{self.extra}]'"


_S3 = Package("S3", "boto3", "boto3", "s3")
_AZURE = Package("Azure", "azure-storage-blob", "azure.storage.blob", "azure")
_GCS = Package("Google's store", "google-cloud-storage", "google.cloud.storage", "gcs")
_HDFS = Package("HDFS", "hdfs-native", "hdfs_native", "hdfs")
_BY_SCHEME = {
    **dict.fromkeys(("s3", "s3a", "s3n"), _S3),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _AZURE),
    "gs": _GCS,
    **dict.fromkeys(("hdfs", "viewfs"), _HDFS),
}


def package_of(scheme: str) -> Package | None:
    """Returns what reaches the stores of a scheme, in lower case; ``None`` if that is no package."""
    return _BY_SCHEME.get(scheme)


def missing_package(url: str) -> Package | None:
    """Returns what is not installed here and reaches ``url``; ``None`` if nothing is missing, or no package is known.

    Imports only the packages that the module is in.
    """
    scheme, separator, _ = url.partition("://")
    package = package_of(scheme.lower()) if separator else None
    return package if package is not None and not _is_installed(package.module) else None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that it is in
        return False
