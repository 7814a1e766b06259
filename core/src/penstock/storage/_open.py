"""From an address to a storage."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from penstock.errors import BadConfigurationError
from penstock.options import Option, when
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.storage._contract import Storage
from penstock.storage._hdfs import HdfsStorage
from penstock.storage._local import LocalStorage
from penstock.storage._s3 import S3Storage

__all__ = ["STORAGE_OPTIONS", "has_scheme", "open_storage"]

#: Options that a connector which touches files adds to its own.
STORAGE_OPTIONS = (
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
)


#: An address without a host: "file:x", or "hdfs:/x" for Hadoop's default host.
_SHORT = re.compile("(file|[A-Za-z][A-Za-z0-9+.-]+(?=:/)):(.*)", re.DOTALL)


def has_scheme(path: str) -> bool:
    """Returns whether :func:`open_storage` finds a scheme in ``path``. Without one, it is a local path for it."""
    return "://" in path or _SHORT.match(path) is not None


def open_storage(
    url: str, options: Mapping[str, str | None] | None = None, retry: RetryPolicy = NO_RETRIES
) -> tuple[Storage, str]:
    """Returns the storage of ``url`` and the path in it (absolute, no trailing slash).

    ``options`` are those below ``s3.`` (``endpoint``, ``region``, ``key``, ``secret``, ``token``). A path without a
    scheme is local and relative to the working directory. Its calls are made again as ``retry`` says. Raises
    BadConfigurationError for an unknown scheme, and for a path that no file system takes.
    """
    storage, path = _open(url, options)
    return storage.retrying(retry), path


def _open(url: str, options: Mapping[str, str | None] | None) -> tuple[Storage, str]:
    if "\0" in url:
        raise BadConfigurationError(f"{url!r}: no file system takes a NUL character in a path")
    # Split by hand: in a path '?' is a wildcard and '#' a character like any other.
    scheme, separator, rest = url.partition("://")
    if not separator:
        short = _SHORT.match(url)
        scheme, rest = (short[1], short[2]) if short else ("", url)
    scheme = scheme.lower()
    if scheme in ("", "file"):
        return LocalStorage(), os.path.abspath(rest)
    if scheme in ("s3", "s3a", "s3n"):
        if not rest.strip("/") or rest.startswith("/"):
            raise BadConfigurationError(f"{url!r} names no bucket: write s3://bucket/prefix")
        settings = {name: text for name, text in (options or {}).items() if text}
        return S3Storage(settings), rest.rstrip("/")
    if scheme in ("hdfs", "viewfs"):
        host, _, path = rest.partition("/")
        return HdfsStorage(f"{scheme}://{host}/"), f"/{path}".rstrip("/")
    raise BadConfigurationError(f"{url!r}: no file system for '{scheme}://' (known: file, s3, s3a, hdfs, viewfs)")
