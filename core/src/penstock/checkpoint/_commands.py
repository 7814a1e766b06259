"""What a person, or the idle listener, does to a checkpoint from outside of its query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock._commit import AnySink, Batch, GaveWayError, Link, committables_of
from penstock.checkpoint._batch_writes import StoredWrite, stored_writes
from penstock.checkpoint._identity import adopt as adopt_place
from penstock.checkpoint._named import home_of, named_sinks
from penstock.checkpoint._queries import StoredQuery, open_stored_queries, open_stored_query
from penstock.checkpoint._stored import chain_of, query_id_of
from penstock.error_codes import MIXED_PARTS
from penstock.errors import BadConfigurationError, DataLostError
from penstock.retry import RetryPolicy
from penstock.storage import open_storage

__all__ = ["Finished", "adopt", "finish", "open_pieces", "resolve", "restore_offsets", "take_over"]


#: Of a query, below its checkpoint; a target of batch writes may have a directory of one of these names.
_LOGS = ("offsets", "commits", "penstock/decisions")


@dataclass(frozen=True)
class Finished:
    """One link of a decision log that was carried out, and what became visible by it, in words."""

    link: Link
    published: tuple[str, ...]


def finish(checkpoint: str, options: Mapping[str, str] | None = None, *, sink: str = "") -> list[Finished]:
    """Closes and publishes everything that a query has committed and still holds open. Empty: nothing was open.

    ``sink`` chooses one of the sinks that a batch function writes to; otherwise all are looked after.

    Any process that reaches checkpoint and target may call it, also while the query runs. A batch that is decided and
    not published is left to its driver: raises GaveWayError, also if a batch came first. Rows still open are merged in
    this process, in bounded memory. Raises as :func:`open_stored_query` does.

    ``checkpoint`` may also be a path that batch writes have written to: those that were decided are published, and
    GaveWayError says so of one that was not.
    """
    if (writes := _writes_below(checkpoint, options)) is not None:
        return _finish_writes(writes, checkpoint, take_over=False)
    queries = open_stored_queries(checkpoint, options, waits=True, sink_name=sink)
    return [made for query in queries for made in _finish_query(query)]


def _finish_query(query: StoredQuery) -> list[Finished]:
    protocol, began_at, made = query.protocol, query.chain.head().link.number, []
    while (link := protocol.roll(finish=True)) is not None:
        made.append(_finished(query.sink, link))
        if link.number > began_at:
            break  # what a query that runs has left open since then is not waited for
    return made


def take_over(checkpoint: str, options: Mapping[str, str] | None = None, *, sink: str = "") -> list[Finished]:
    """Does what :func:`finish` does, for a query that does not run.

    Also publishes what the query had decided, and leaves nothing behind. A batch write that was not decided is undone.

    A driver that runs all the same is displaced: it stops with an error, and nothing is lost or duplicated.
    """
    if (writes := _writes_below(checkpoint, options)) is not None:
        return _finish_writes(writes, checkpoint, take_over=True)
    queries = open_stored_queries(checkpoint, options, waits=True, sink_name=sink)
    return [made for query in queries for made in _take_over_query(query)]


def _take_over_query(query: StoredQuery) -> list[Finished]:
    pending = query.chain.head().pending
    made = [query.protocol.take_over()]
    if pending is not None and pending in query.chain.head().done:
        made.insert(0, query.chain.read(pending))
    return [_finished(query.sink, link) for link in made]


def _finished(sink: AnySink, link: Link) -> Finished:
    committables = [sink.committable_serializer.unpack(stored) for stored in committables_of(link.outputs)]
    return Finished(link, tuple(sink.describe_committable(one) for one in committables))


def _writes_below(path: str, options: Mapping[str, str] | None) -> list[StoredWrite] | None:
    """The unfinished batch writes below a path; ``None`` for a checkpoint.

    Raises BadConfigurationError for a path where there is nothing at all.
    """
    storage, root = open_storage(path, options, RetryPolicy())
    if storage.exists(f"{root}/metadata"):
        return None
    if not (writes := stored_writes(path, options)) and storage.is_empty(root):
        raise BadConfigurationError(
            f"{path} is not the checkpoint of a streaming query: it has no 'metadata' file. No batch write has "
            "written there either: it is empty, or does not exist"
        )
    if not writes and sum(not storage.is_empty(f"{root}/{log}") for log in _LOGS) > 1:
        raise BadConfigurationError(
            f"{path} has the logs of a streaming query and no 'metadata' file: put that back from a copy, since "
            "without it nothing shows what is open"
        )
    return writes


def open_pieces(checkpoint: str, options: Mapping[str, str] | None = None) -> int | None:
    """Returns how many pieces a query carries that no reader sees yet; ``None`` if this is not a checkpoint."""
    if _writes_below(checkpoint, options) is not None:
        return None
    return sum(len(query.chain.head().link.states) for query in open_stored_queries(checkpoint, options, waits=True))


def _finish_writes(writes: Sequence[StoredWrite], path: str, *, take_over: bool) -> list[Finished]:
    made, undecided, lost = [], [], []
    for write in writes:
        protocol = write.protocol()
        try:
            decision = protocol.finish_at_once()
        except GaveWayError:
            if not take_over:
                undecided.append(write.write_id)
                continue
            protocol.abort_at_once([])
        else:
            if decision is None:
                lost.append(write.write_id)
            else:
                made.append(_finished(write.sink, decision))
        write.forget()
    if lost:
        raise DataLostError(
            f"{path}: a batch write ({', '.join(lost)}) was decided, and what it had left was removed before it could "
            "be published. Nothing of it is visible, and nothing is open any more: write it again"
        )
    if undecided:
        raise GaveWayError(
            f"{len(undecided)} batch write{'s have' if len(undecided) > 1 else ' has'} not decided anything yet "
            f"({undecided[0]}): it is running, or was killed; if it was, undo it with: penstock finish --take-over "
            f"{path}"
        )
    return made


def restore_offsets(checkpoint: str, options: Mapping[str, str] | None = None) -> Batch:
    """Writes back Spark's offsets of the last batch that was decided, which were deleted or replaced. Returns them.

    Of several sinks of a batch function, the one that is furthest counts: the others write that batch when it is run
    again. What Spark has committed since its log was changed is forgotten: the function has left out those batches.
    Raises BadConfigurationError if the decision log does not hold the offsets, or if Spark's log has them and later
    batches are committed: going back would write those again.
    """
    queries = open_stored_queries(checkpoint, options, waits=True)
    query = max(queries, key=lambda one: one.chain.head().link.batch)
    chain = query.chain
    links = {link.batch: link for link in chain.links() if link.offsets}
    head = chain.head().link
    stored = query.spark_log.find(head.batch)
    is_other = stored is not None and not head.matches(stored.fingerprint)
    if (committed := query.spark_log.last("commits")) > head.batch and not is_other:
        raise BadConfigurationError(
            f"{checkpoint}: Spark has committed batch {committed}, and the last batch decided is {head.batch}: with "
            "the offsets of that one, the query would write the later ones again. If it stops because a part of the "
            "decision log is missing, put that back, or start with a new checkpoint",
            error_code=MIXED_PARTS,
        )
    if head.batch not in links:
        raise BadConfigurationError(f"{checkpoint}: its decision log holds no offsets of batch {head.batch}")
    batch = Batch(head.batch, links[head.batch].offsets)
    query.spark_log.restore(batch)
    return batch


def resolve(
    checkpoint: str, options: Mapping[str, str] | None = None, *, write_all_again: bool, sink: str = ""
) -> Link:
    """Ends what only a person can decide: a batch of which a part is published and another part is lost.

    ``write_all_again``: the batch is given up, and the next start writes all of it: rows that are published are
    duplicated. Otherwise what is lost stays missing, and the rest is published.
    """
    if (writes := _writes_below(checkpoint, options)) is not None:
        return _resolve_writes(writes, checkpoint, write_all_again=write_all_again)
    query = open_stored_query(checkpoint, options, waits=True, sink_name=sink)
    return query.protocol.resolve(write_all_again=write_all_again)


def _resolve_writes(writes: Sequence[StoredWrite], path: str, *, write_all_again: bool) -> Link:
    for write in writes:
        if write.chain.head().pending is not None:
            link = write.protocol().resolve(write_all_again=write_all_again)
            write.protocol().clear_at_once()
            write.forget()
            return link
    raise BadConfigurationError(f"{path}: nothing is pending, there is nothing to resolve")


def adopt(checkpoint: str, options: Mapping[str, str] | None = None, *, is_copy: bool) -> None:
    """Accepts the new place of a checkpoint that was moved, or is a copy of one that is still used.

    Raises BadConfigurationError for a copy with something open, which original and copy would both publish.
    """
    storage, path = open_storage(checkpoint, options, RetryPolicy())
    query_id_of(storage, path)
    heads = [chain_of(storage, home_of(path, name)).head() for name in ("", *named_sinks(storage, path))]
    if is_copy and any(head.pending is not None or head.link.states for head in heads):
        raise BadConfigurationError(
            f"{checkpoint}: rows are open in it, which both checkpoints would publish. Run penstock finish on the "
            "original, and copy it again"
        )
    adopt_place(storage, path, is_copy=is_copy)
