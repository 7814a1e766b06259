"""Paths of the sink: finished parts are in buckets, the rest in a hidden directory of each query."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar
from urllib.parse import quote

from penstock.errors import BadConfigurationError, BadDataError, FatalError
from penstock.sink import WriterContext
from penstock.storage import Storage, path_below

__all__ = ["AttemptNames", "Layout", "base_of", "is_hidden_path"]

HIDDEN_DIRECTORY = ".penstock"  # readers skip names that begin with a dot
#: Bytes of a file's name besides prefix and suffix: the indexes, the digests, the extension.
_NAME_BYTES = 75

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class Layout:
    """The sink's directory. Paths handed around and stored are relative to ``root``."""

    storage: Storage
    root: str
    part_prefix: str
    part_suffix: str

    def __post_init__(self) -> None:
        # Found now: once its batch is decided, a part that can't get its name stops the query for good.
        self._check_fits("", BadConfigurationError, "options 'partPrefix' and 'partSuffix': the name of a file")

    def check_bucket(self, bucket: str) -> None:
        """Raises BadDataError for a bucket with a name that the storage can't take."""
        self._check_fits(bucket, BadDataError, f"bucket '{bucket[:80]}…': the name")

    def _check_fits(self, bucket: str, error: type[FatalError], what: str) -> None:
        part = _bytes(self.part_prefix + self.part_suffix) + _NAME_BYTES
        longest = max(part, *map(_bytes, bucket.split("/")))
        if longest > self.storage.longest_name:
            raise error(f"{what} has up to {longest} bytes, and {self._taken(self.storage.longest_name)}")
        whole = _bytes(f"{self.root}/{bucket}") + part
        if whole > self.storage.longest_path:
            raise error(f"{what} with its path has up to {whole} bytes, and {self._taken(self.storage.longest_path)}")

    def _taken(self, most: int) -> str:
        return f"{self.storage.url(self.root)} takes {most}: shorten it"

    def full(self, relative: str) -> str:
        """Returns the path that the storage takes for a relative one. Raises FatalError for one that is not below."""
        return path_below(self.root, relative)

    def confirmed(self, look: Callable[[], AnswerT]) -> AnswerT:
        """Makes a look again that did not find what it was for, once the directory itself is there.

        The first look may have been made just before a directory that was away came back. Raises RetriableError if it
        is not there.
        """
        self.storage.check_is_there(self.root)
        return look()

    def query_directory(self, query_id: str) -> str:
        """Returns the directory of everything hidden of one query, and of nothing else."""
        return f"{HIDDEN_DIRECTORY}/{quote(query_id, safe='')}"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def is_hidden_path(relative: str) -> bool:
    """Returns whether a stored path is in the hidden directory, where this sink may delete and rename."""
    return relative.startswith(f"{HIDDEN_DIRECTORY}/") and ".." not in relative.split("/")


def base_of(relative: str) -> int | None:
    """Returns the base that a hidden path was made for; ``None`` for a path that this sink did not make.

    The first edition had the number of the batch in its place, which is never greater.
    """
    pieces = relative.split("/")
    if len(pieces) != 4 or pieces[0] != HIDDEN_DIRECTORY or not pieces[2].lstrip("-").isdigit():
        return None
    return int(pieces[2])


class AttemptNames:
    """Makes names that no other attempt, task, batch or query ever uses.

    Final names hold digests of the query's and the attempt's id. So a final name that exists was published from this
    very attempt's file: that is how a repeated commit knows that it was done before.
    """

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        self._layout = layout
        self._context = context
        self._hidden = self._again = 0
        self.used = 0
        self.directory = f"{layout.query_directory(context.query_id)}/{context.base}"
        self._stem = f"{context.attempt_id}-{role[0]}"
        query = hashlib.sha256(context.query_id.encode()).hexdigest()[:8]
        attempt = hashlib.sha256(f"{context.attempt_id}:{role}".encode()).hexdigest()[:8]
        self._uid = f"{query}{attempt}"

    def hidden(self, kind: Literal["chunk", "upload", "blocks"]) -> str:
        """Returns the next hidden path."""
        name = f"{self.directory}/{self._stem}{self._hidden}.{kind}"
        self._hidden += 1
        return name

    def again(self, path: str) -> str:
        """Returns another path in place of one that another method has returned, with a name next to it."""
        self._again += 1
        directory, slash, name = path.rpartition("/")
        head, own, tail = name.rpartition(self._uid if self._uid in name else self._stem)
        return f"{directory}{slash}{head}{self._again}-{own}{tail}"

    def final(self, bucket: str, extension: str) -> str:
        """Returns the next final path; uses up one index of the query's sequence."""
        index = self._context.sequence + self.used
        self.used += 1
        prefix, suffix = self._layout.part_prefix, self._layout.part_suffix
        name = f"{prefix}-{max(0, self._context.writer_index)}-{index}-{self._uid}{suffix}{extension}"
        return f"{bucket}/{name}" if bucket else name
