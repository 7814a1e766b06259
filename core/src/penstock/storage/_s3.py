"""S3 and compatible stores."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.error_codes import NOT_INSTALLED, STORE_CERTIFICATE, STORE_CREDENTIALS
from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.per_process import PerProcess
from penstock.storage._contract import REQUESTS_AT_ONCE, Storage
from penstock.storage._endpoint import check_endpoint, no_answer
from penstock.storage._ranged_file import RangedFile, checked
from penstock.storage._whole_heads import careful_pools
from penstock.system import system

__all__ = ["S3Storage", "translated"]

#: What a store says that has nothing there.
_MISSING = {"NoSuchKey", "NoSuchBucket", "404", "NotFound", "NoSuchUpload", "AWS.SimpleQueueService.NonExistentQueue"}
_REFUSED = {
    *("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AllAccessDisabled"),
    *("AccessDeniedException", "InvalidClientTokenId", "UnrecognizedClientException"),
}
#: How often a request is made before it fails, by both libraries: a store that is busy says so several times in a row.
_ATTEMPTS = 6
#: What OpenSSL and urllib3 say of a certificate that is refused, and of one for another name.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "doesn't match")
#: Keys that one request may delete.
_DELETED_AT_ONCE = 1000
#: Requests that one client has in flight: several queries of a process share it.
_CONNECTIONS = 64
#: Seconds, for both libraries: without an answer for so long, a connection is given up.
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 60
ResultT = TypeVar("ResultT")


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Translates botocore's errors, with ``where`` (an address) in the message.

    Raises FileNotFoundError for what is not there, PermissionError for what is refused, BadConfigurationError for
    missing credentials and a certificate that is not trusted, else RetriableError: also for an answer that lacks what
    is looked up in it (KeyError), since its end was cut off.
    """
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, SSLError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code == "NoSuchBucket":
            raise FileNotFoundError(f"{where}: there is no such bucket; create it, or correct the path") from error
        if code in _MISSING:
            raise FileNotFoundError(f"{where}: {code}") from error
        if code in _REFUSED:
            raise PermissionError(
                f"{where}: the store refuses it ({code}); check s3.key, s3.secret and rights"
            ) from error
        raise RetriableError(f"{where}: {error}") from error
    except NoCredentialsError as error:
        raise BadConfigurationError(
            f"{where}: no credentials; give s3.key and s3.secret, or AWS's own variables",
            error_code=STORE_CREDENTIALS,
        ) from error
    except SSLError as error:
        if not any(words in str(error) for words in _UNTRUSTED):
            raise no_answer(where, _asked(error), "s3.endpoint", str(error)) from error
        raise BadConfigurationError(
            f"{where}: the store's certificate is refused; set AWS_CA_BUNDLE to the file of the authority that signed "
            f"it, or correct s3.endpoint: {error}",
            error_code=STORE_CERTIFICATE,
        ) from error
    except HTTPClientError as error:
        raise no_answer(where, _asked(error), "s3.endpoint", str(error)) from error
    except BotoCoreError as error:
        raise RetriableError(f"{where}: {error}") from error
    except KeyError as error:
        raise RetriableError(f"{where}: the answer was cut off, it has no {error}") from error


def _asked(error: Any) -> str:
    """Returns the address of a request that was not answered."""
    return str(error.kwargs.get("endpoint_url") or "")


def _hide(secrets: Sequence[str], parsed: dict[str, Any], **_: Any) -> None:
    """Takes credentials out of what a store says of a failure: it repeats what it was sent."""
    error = parsed.get("Error") or {}
    for secret in secrets:
        # By the code we know what happened.
        told = {name: text for name, text in error.items() if isinstance(text, str) and name != "Code"}
        error.update({name: text.replace(secret, "***") for name, text in told.items()})


class _Access(NamedTuple):
    """Where a service is, and who asks. boto3 reads the rest from the environment, and from files that it may name."""

    service: str
    region: str
    endpoint: str | None
    key: str | None
    secret: str | None
    token: str | None
    environment: tuple[tuple[str, str], ...]


def _new_client(access: _Access) -> Any:
    import boto3
    from botocore.awsrequest import AWSHTTPConnectionPool, AWSHTTPSConnectionPool
    from botocore.config import Config

    client = boto3.session.Session().client(
        access.service,
        region_name=access.region,
        endpoint_url=access.endpoint,
        aws_access_key_id=access.key,
        aws_secret_access_key=access.secret,
        aws_session_token=access.token,
        config=Config(
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            max_pool_connections=_CONNECTIONS,
            s3={"addressing_style": "path"} if access.endpoint else {},
        ),
    )
    # botocore has no public way to another class of connections.
    pools = client._endpoint.http_session._pool_classes_by_scheme
    pools.update(careful_pools(AWSHTTPConnectionPool, AWSHTTPSConnectionPool))
    secrets = [text for text in (access.token, access.secret, access.key) if text]
    client.meta.events.register(f"after-call.{access.service}", functools.partial(_hide, secrets))
    return client


def _files_of(access: _Access) -> list[str]:
    """Returns the files that a client is made from. One that comes later counts as a change."""
    named = dict(access.environment)
    paths = (
        named.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        named.get("AWS_CONFIG_FILE", "~/.aws/config"),
        named.get("AWS_CA_BUNDLE", ""),
    )
    return [path for path in map(os.path.expanduser, paths) if os.path.isfile(path)]


#: Connections are of no use in a forked process. A client that is not kept any more serves those who have it.
_clients: PerProcess[_Access, Any] = PerProcess(_new_client, files=_files_of)


class S3Storage(Storage):
    """:meth:`create` is a conditional put (``If-None-Match: *``). Raises BadConfigurationError without boto3."""

    longest_name = longest_path = 1024
    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, settings: Mapping[str, str]) -> None:
        if find_spec("boto3") is None:
            raise BadConfigurationError("S3 needs boto3: pip install 'penstock[s3]'", error_code=NOT_INSTALLED)
        self._settings = dict(settings)
        if self._endpoint:
            check_endpoint(self._endpoint, "s3.endpoint")

    def __reduce__(self) -> Any:
        return (S3Storage, (self._settings,), {"retry": self.retry})

    def __repr__(self) -> str:
        return f"S3Storage(endpoint={self._endpoint!r})"

    @property
    def _endpoint(self) -> str | None:
        return (
            self._settings.get("endpoint")
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
        )

    @property
    def _region(self) -> str:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return self._settings.get("region") or region or "us-east-1"

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        endpoint = urlsplit(self._endpoint) if self._endpoint else None
        credentials = {}
        if "key" in self._settings:
            credentials = {"access_key": self._settings["key"], "secret_key": self._settings.get("secret", "")}
            if "token" in self._settings:
                credentials["session_token"] = self._settings["token"]
        settings = {
            "region": self._region,
            "endpoint_override": endpoint.netloc if endpoint else None,
            "scheme": endpoint.scheme if endpoint else "https",
            "retry_strategy": pafs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "request_timeout": _READ_TIMEOUT_S,
            **credentials,
        }
        # boto3 reads the variable by itself; newer releases of Arrow take it as an argument.
        if authorities := os.environ.get("AWS_CA_BUNDLE"):
            with contextlib.suppress(TypeError):
                return pafs.S3FileSystem(**settings, tls_ca_file_path=authorities)
        return pafs.S3FileSystem(**settings)

    @property
    def client(self) -> Any:
        """The boto3 client, for what pyarrow does not offer: conditional puts and multipart uploads.

        All storages of a process with the same settings and environment share it. Callers use it inside
        :func:`translated`.
        """
        return self.client_of("s3", self._endpoint, self._region)

    def client_of(self, service: str, endpoint: str | None, region: str | None) -> Any:
        """Returns the boto3 client of another service, by its name there, with this store's credentials.

        ``region`` is this store's unless given. Shared and used as :attr:`client`.
        """
        environment = tuple((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
        key, secret, token = (self._settings.get(name) for name in ("key", "secret", "token"))
        return _clients.get(_Access(service, region or self._region, endpoint, key, secret, token, environment))

    def request(self, path: str, send: Callable[[], ResultT]) -> ResultT:
        """Returns what a request of :attr:`client` returns, which may be made twice. Raises as :func:`translated`."""

        def once() -> ResultT:
            with translated(self.url(path)):
                return send()

        return self.retry.call(once)

    def url(self, path: str) -> str:
        return f"s3://{path}"

    def no_answer(self, path: str, error: BaseException) -> PenstockError | None:
        if self._endpoint is None or "NETWORK_CONNECTION" not in str(error):
            return None
        return no_answer(self.url(path), self._endpoint, "s3.endpoint", str(error))

    @staticmethod
    def split(path: str) -> tuple[str, str]:
        """``bucket/key`` → bucket, key."""
        bucket, _, key = path.partition("/")
        return bucket, key

    def open_file(self, path: str) -> pa.NativeFile:
        bucket, key = self.split(path)
        with translated(self.url(path)):
            head = self.client.head_object(Bucket=bucket, Key=key)
            etag, size = head["ETag"], int(head["ContentLength"])

        def read_range(offset: int, length: int) -> bytes:
            with translated(self.url(path)):
                where = f"bytes={offset}-{offset + length - 1}"
                answer = self.client.get_object(Bucket=bucket, Key=key, Range=where, IfMatch=etag)
                data = bytes(answer["Body"].read())
            return checked(data, length, self.url(path))

        return pa.PythonFile(RangedFile(read_range, size), mode="r")

    def read(self, path: str) -> bytes:
        """Reads with one request, where Arrow's stream takes two."""
        bucket, key = self.split(path)
        with translated(self.url(path)):
            return bytes(self.client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def size(self, path: str) -> int | None:
        bucket, key = self.split(path)
        try:
            with translated(self.url(path)):
                return int(self.client.head_object(Bucket=bucket, Key=key)["ContentLength"])
        except FileNotFoundError:
            return None

    def list_names(self, directory: str) -> list[str]:
        bucket, prefix = self.split(f"{directory}/")
        names = []
        with translated(self.url(directory)), contextlib.suppress(FileNotFoundError):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
            for page in pages:
                names += [one["Key"][len(prefix) :] for one in page.get("Contents", [])]
        return sorted(name for name in names if name)

    def create(self, path: str, data: bytes) -> bool:
        return self._create(path, data) is not None

    def create_by_one_request(self, path: str, data: bytes) -> bool:
        """Creates as :meth:`create` does, and is not made again. Returns whether the store has answered the only
        request: an earlier one whose answer was lost may arrive at any later time, and create it once more.
        """
        answer = self._create(path, data)
        return answer is not None and not answer["ResponseMetadata"].get("RetryAttempts")

    def _create(self, path: str, data: bytes) -> Any:
        """Returns the answer; ``None`` if something is there."""
        from botocore.exceptions import ClientError

        bucket, key = self.split(path)
        with translated(self.url(path)):
            try:
                return self.client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code")
                if code in ("PreconditionFailed", "412"):
                    return None
                if code in ("ConditionalRequestConflict", "409"):
                    message = f"{self.url(path)}: another writer was active at the same time"
                    raise RetriableError(message) from error
                raise

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        bucket, key = self.split(path)
        with translated(self.url(path)):
            self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def put_file(self, path: str, stream: BinaryIO) -> None:
        """Writes what ``stream`` has from its beginning on, as :meth:`put` does. 5 GiB at most."""
        bucket, key = self.split(path)
        stream.seek(0)
        with translated(self.url(path)):
            self.client.put_object(Bucket=bucket, Key=key, Body=stream)

    def delete(self, paths: Iterable[str]) -> None:
        by_bucket = itertools.groupby(sorted(map(self.split, paths)), key=lambda one: one[0])
        for bucket, found in by_bucket:
            keys = [{"Key": key} for _, key in found]
            for start in range(0, len(keys), _DELETED_AT_ONCE):
                some = keys[start : start + _DELETED_AT_ONCE]
                with translated(f"s3://{bucket}"):
                    answer = self.client.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
                for one in answer.get("Errors", []):
                    if one.get("Code") not in _MISSING:
                        raise RetriableError(f"s3://{bucket}/{one.get('Key')} could not be deleted: {one.get('Code')}")

    def list_tree(self, directory: str) -> list[str]:
        bucket, prefix = self.split(f"{directory}/")
        with translated(self.url(directory)):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            return sorted(f"{bucket}/{one['Key']}" for page in pages for one in page.get("Contents", []))

    def is_empty(self, directory: str) -> bool:
        """Asks for one object at most."""
        bucket, prefix = self.split(f"{directory}/")
        try:
            with translated(self.url(directory)):
                return not self.client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1).get("Contents")
        except FileNotFoundError:
            return True

    def age_s(self, path: str) -> float | None:
        """Returns an object's age, by the store's clock and this machine's; ``None`` if there is none."""
        bucket, key = self.split(path)
        try:
            with translated(self.url(path)):
                written = self.client.head_object(Bucket=bucket, Key=key)["LastModified"]
        except FileNotFoundError:
            return None
        return system().now_us() / 1_000_000 - float(written.timestamp())
