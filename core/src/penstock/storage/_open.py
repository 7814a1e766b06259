"""From an address to a storage."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.error_codes import NOT_INSTALLED
from penstock.errors import BadConfigurationError
from penstock.options import Option, connecting, parse_port, when, without_credentials
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.storage._azure import AzureStorage
from penstock.storage._contract import Storage
from penstock.storage._gcs import GcsStorage
from penstock.storage._hdfs import HdfsStorage
from penstock.storage._local import LocalStorage
from penstock.storage._packages import missing_package, package_of
from penstock.storage._s3 import S3Storage

__all__ = [
    "STORAGE_OPTIONS",
    "check_address",
    "has_scheme",
    "open_storage",
    "storage_options",
    "storage_options_of_one",
]

#: Options that a connector which touches files adds to its own.
STORAGE_OPTIONS = connecting(
    (
        Option("s3.endpoint", "Address of an S3-compatible store; default: AWS_ENDPOINT_URL, then Amazon's"),
        Option("s3.region", "Region of the bucket; default: AWS_REGION, then us-east-1"),
        Option(
            "s3.key",
            "Access key id; default: the AWS environment, profile or role",
            secret=True,
            required_with=(when("s3.secret"),),
        ),
        Option("s3.secret", "Secret access key; default as for s3.key", secret=True, required_with=(when("s3.key"),)),
        Option("s3.token", "Session token; default as for s3.key", secret=True, needs=(when("s3.key"),)),
        Option("azure.endpoint", "Address of Azure's blob service, of an emulator say; default: that of the account"),
        Option(
            "azure.key",
            "Key of the storage account; default: an identity, as Azure's own variables say",
            secret=True,
            excludes=(when("azure.sas"),),
        ),
        Option("azure.sas", "SAS token; default as for azure.key", secret=True),
        Option(
            "gcs.endpoint",
            "Address of Google's store, of an emulator say, which without TLS gets no credentials; "
            "default: STORAGE_EMULATOR_HOST, then Google's",
        ),
        Option(
            "gcs.credentials",
            "JSON key of a service account; default: Google's application default credentials",
            secret=True,
        ),
    )
)

_NAMES = tuple(option.name.lower() for option in STORAGE_OPTIONS)

#: An address without a host: "file:x", or "hdfs:/x" for Hadoop's default host.
_SHORT = re.compile("(file|[A-Za-z][A-Za-z0-9+.-]+(?=:/)):(.*)", re.DOTALL)


def _below(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)}


def has_scheme(path: str) -> bool:
    """Returns whether :func:`open_storage` finds a scheme in ``path``. Without one, it is a local path for it."""
    return "://" in path or _SHORT.match(path) is not None


def storage_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns those of ``options`` that are for a storage (:data:`STORAGE_OPTIONS`), by their names in lower case."""
    given = {name.lower(): text for name, text in (options or {}).items()}
    return {name: given[name] for name in _NAMES if given.get(name)}


def storage_options_of_one(url: str, candidates: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the options with which ``url`` is opened that several sinks share, such as their checkpoint.

    They are those of the sink that has the most for such a store, the first of several. They are not merged: the
    address of one and the password of another would be those of no store.
    """
    extra = _extra_of(_split(url)[0])
    prefix = f"{extra}." if extra else ""
    of_store = ({n: text for n, text in storage_options(one).items() if n.startswith(prefix)} for one in candidates)
    return max(of_store, key=len, default={})


def open_storage(
    url: str, options: Mapping[str, Any] | None = None, retry: RetryPolicy = NO_RETRIES
) -> tuple[Storage, str]:
    """Returns the storage of ``url`` and the path in it (absolute, no trailing slash).

    Of ``options``, those of :data:`STORAGE_OPTIONS` count. A path without a scheme is local and relative to the
    working directory. Its calls are made again as ``retry`` says. Raises BadConfigurationError for an unknown scheme,
    and for a path that no file system takes.
    """
    storage, path = _open(url, storage_options(options))
    return storage.retrying(retry), path


def _open(url: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    check_address(url)
    _require(url)
    scheme, rest = _split(url)
    extra = _extra_of(scheme)
    if extra == "s3":
        return S3Storage(_below("s3.", options)), rest.rstrip("/")
    if extra == "azure":
        container, host, name = _in_azure(rest)
        return AzureStorage(host, _below("azure.", options)), f"{container}/{name}".rstrip("/")
    if extra == "gcs":
        return GcsStorage(_below("gcs.", options)), rest.rstrip("/")
    if extra == "hdfs":
        host, _, path = rest.partition("/")
        return HdfsStorage(f"{scheme}://{host}/"), f"/{path}".rstrip("/")
    return LocalStorage(), os.path.abspath(rest)


def check_address(url: str) -> None:
    """Raises BadConfigurationError for what :func:`open_storage` refuses whatever the options are, and whatever is
    installed.
    """
    shown = repr(without_credentials(url))
    if "\0" in url:
        raise BadConfigurationError(f"{shown}: no file system takes a NUL character in a path")
    scheme, rest = _split(url)
    extra = _extra_of(scheme)
    if not extra and scheme not in ("", "file"):
        raise BadConfigurationError(
            f"{shown}: no file system for '{scheme}://' (known: file, s3, s3a, abfs, abfss, gs, hdfs, viewfs)"
        )
    if extra in ("s3", "gcs") and (not rest.strip("/") or rest.startswith("/")):
        example = "s3" if extra == "s3" else scheme
        raise BadConfigurationError(f"{shown} names no bucket: write {example}://bucket/prefix")
    if extra == "hdfs":
        _check_name_node(rest.partition("/")[0], shown)
    if extra == "azure":
        container, host, _ = _in_azure(rest)
        if not container or not host or "/" in container:
            raise BadConfigurationError(
                f"{shown} names no container: write abfss://container@account.dfs.core.windows.net/path"
            )


def _check_name_node(authority: str, shown: str) -> None:
    """A name without a port may be a group of name nodes."""
    _, colon, port = authority.rpartition("]")[2].partition(":")
    try:
        if colon:
            parse_port(port)
    except ValueError as error:
        raise BadConfigurationError(f"{shown}: the port of the name node is not {error}") from None


def _extra_of(scheme: str) -> str:
    """Returns the extra of penstock that a scheme's stores need, which names the kind of store; empty for none."""
    package = package_of(scheme)
    return "" if package is None else package.extra


def _in_azure(rest: str) -> tuple[str, str, str]:
    """Returns the container, the account's host and the path."""
    container, _, place = rest.partition("@")
    host, _, name = place.partition("/")
    return container, host, name


def _split(url: str) -> tuple[str, str]:
    """Returns the scheme, in lower case, and the rest. In a path ``?`` is a wildcard, and ``#`` any character."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        short = _SHORT.match(url)
        scheme, rest = (short[1], short[2]) if short else ("", url)
    return scheme.lower(), rest


def _require(url: str) -> None:
    if (package := missing_package(url)) is not None:
        text = f"{package.store} needs {package.name}: {package.install}"
        raise BadConfigurationError(text, error_code=NOT_INSTALLED)
