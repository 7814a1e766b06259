"""What S3 reports of new objects, through a queue of SQS: instead of listing a large bucket again and again.

Notifications may come late, twice or never, and the queue may lose some. So they only tell where to look, and nothing
depends on one: each run begins with a listing, and others follow at intervals.

Sources: Amazon S3 User Guide, "Event message structure"; Amazon EventBridge User Guide, "Amazon S3 events"; Amazon SNS
Developer Guide, "Amazon SNS message and JSON formats".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from penstock.errors import BadConfigurationError, RetriableError
from penstock.printable import get_logger
from penstock.storage import S3Storage, translated
from penstock_filesystem.source.discovery._listing import FileDiscovery

__all__ = ["NotificationQueue", "objects_of", "queue_of"]

_log = get_logger("penstock.filesystem")
#: Limits of SQS for one request: messages to receive or delete, and seconds to wait.
_MESSAGES, _WAIT_S = 10, 20
#: Requests in a row while the queue has more.
_REQUESTS = 100
_REGION = re.compile(r"(?:^|\.)sqs\.([a-z0-9-]+)\.|^([a-z0-9-]+)\.queue\.amazonaws\.")


class _QueueError(Exception):
    """The queue does not answer, or refuses."""


class NotificationQueue:
    """A queue of SQS that is this query's own: messages about objects are deleted, whichever path they are in.

    Others stay in the queue, with a warning. Used by one thread at a time, the one that looks for files.
    """

    def __init__(self, storage: S3Storage, url: str) -> None:
        self._storage = storage
        self._url = url
        self._has_others = False
        self._is_away = False

    def __repr__(self) -> str:
        return f"NotificationQueue({self._url!r})"

    @property
    def _client(self) -> Any:
        where = urlsplit(self._url)
        found = _REGION.search(where.netloc)
        region = next(filter(None, found.groups())) if found else None
        return self._storage.client_of("sqs", f"{where.scheme}://{where.netloc}", region)

    def check(self) -> None:
        """Raises BadConfigurationError if the queue does not exist, or access to it is refused."""
        try:
            with translated(f"queue {self._url}"):
                self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        except (FileNotFoundError, PermissionError) as error:
            raise BadConfigurationError(f"option 'notificationQueue': {error}") from error

    def hand_to(self, discovery: FileDiscovery) -> None:
        """Waits for messages, and has ``discovery`` look at what they are about. It lists if the queue does not answer.

        A message is deleted once that is done: if the process ends before the files are in an offset, the next run's
        first listing finds them. Raises OSError or RetriableError if the store does not answer.
        """
        try:
            self._hand_to(discovery)
        except _QueueError as error:
            if not self._is_away:
                _log.warning("%s; the files are listed until it answers", error)
            self._is_away = True
            discovery.list_files()
        else:
            self._is_away = False

    def _hand_to(self, discovery: FileDiscovery) -> None:
        wait_s = _WAIT_S
        for _ in range(_REQUESTS):
            with self._asked():
                answer = self._client.receive_message(
                    QueueUrl=self._url, MaxNumberOfMessages=_MESSAGES, WaitTimeSeconds=wait_s
                )
                messages = {one["ReceiptHandle"]: one["Body"] for one in answer.get("Messages", [])}
            paths, done = [], []
            for receipt, body in messages.items():
                found = objects_of(body)
                if found is None:
                    self._warn(body)
                else:
                    paths += found
                    done.append(receipt)
            discovery.look_at(paths)
            self._delete(done)
            if len(messages) < _MESSAGES:
                return
            wait_s = 0

    def _delete(self, receipts: list[str]) -> None:
        # What is not deleted comes again, and is known then.
        if receipts:
            entries = [{"Id": str(number), "ReceiptHandle": one} for number, one in enumerate(receipts)]
            with self._asked():
                self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            with translated(f"queue {self._url}"):
                yield
        except (OSError, RetriableError) as error:
            raise _QueueError(str(error)) from error

    def _warn(self, body: str) -> None:
        if not self._has_others:
            self._has_others = True
            _log.warning(
                "queue %s has messages that are no notifications of S3, and they stay in it: %.200s; give the query a "
                "queue of its own",
                self._url,
                body,
            )


def objects_of(body: str) -> list[str] | None:
    """Returns the paths (``bucket/key``) of the objects that were created; ``None`` for no notification of S3.

    Takes S3's own events, those of EventBridge, and both within a message of SNS. Objects that were deleted,
    and what S3 sends as a test, are no paths.
    """
    try:
        return list(_objects(json.loads(body)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _objects(event: Any) -> Iterator[str]:
    if event.get("Type") == "Notification":
        yield from _objects(json.loads(event["Message"]))
    elif event.get("source") == "aws.s3":
        if event["detail-type"] == "Object Created":
            yield _path(event["detail"], str)
    elif event.get("Event") != "s3:TestEvent":
        for record in event["Records"]:
            if record["eventName"].removeprefix("s3:").startswith("ObjectCreated:"):
                yield _path(record["s3"], unquote_plus)


def _path(names: Any, decoded: Any) -> str:
    return f"{names['bucket']['name']}/{decoded(names['object']['key'])}"


def queue_of(storage: Any, url: str) -> NotificationQueue:
    """Returns the queue at ``url``. Raises BadConfigurationError if files are read from another store than S3."""
    if not isinstance(storage, S3Storage):
        raise BadConfigurationError("option 'notificationQueue' takes notifications of S3: read paths of s3://")
    return NotificationQueue(storage, url)
