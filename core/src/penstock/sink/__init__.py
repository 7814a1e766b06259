"""The contracts of a sink, and three templates.

================= ====================================================================================================
two-phase commit  :class:`TwoPhaseCommitSink`: a :class:`CommittingSinkWriter` (in tasks: write, leave hidden), a
                  :class:`Committer` (on the driver: publish or throw away, idempotently) and two serializers. Exactly
                  once. The protocol is in :mod:`penstock._commit._two_phase`.
idempotent        :class:`IdempotentSink`: an :class:`Upserter` that writes rows under their keys. Effectively exactly
                  once. See :mod:`penstock.sink._idempotent`.
write-ahead       :class:`WriteAheadSink`: a :class:`Sender` for rows that were decided, and a
                  :class:`CheckpointCommitter` that remembers what was sent. At least once, with a small known window
                  for duplicates. See :mod:`penstock.sink._write_ahead`.
================= ====================================================================================================

A sink that is only a :class:`Sink` delivers at least once.
"""

from penstock.sink._changes import ChangeColumns, check_not_null
from penstock.sink._columns import check_bytes_or_text, warn_about_left_out
from penstock.sink._contracts import (
    TIMESTAMPS_PER_RUN,
    CheckpointLocation,
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    RefusedRows,
    Sink,
    SinkContext,
    SinkWriter,
    StateReplacement,
    StateRoller,
    SupportsCompleteMode,
    SupportsOtherRows,
    SupportsStateRolling,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
    describe_state,
    state_serializer_of,
)
from penstock.sink._dead_letters import LetterRoute, with_dead_letters
from penstock.sink._idempotent import IdempotentSink, Upserter
from penstock.sink._refused import convert_refusing, rows_refused_by
from penstock.sink._union import Member, SinkUnion, SupportsMembers, as_one, member_of, owned, targets_of
from penstock.sink._write_ahead import (
    CheckpointCommitter,
    FileCheckpointCommitter,
    Segment,
    Sender,
    WriteAheadSink,
    base_of,
)

__all__ = [
    "TIMESTAMPS_PER_RUN",
    "ChangeColumns",
    "CheckpointCommitter",
    "CheckpointLocation",
    "Committer",
    "CommittingSinkWriter",
    "FileCheckpointCommitter",
    "Found",
    "IdempotentSink",
    "Kept",
    "LetterRoute",
    "Member",
    "PreparedCommit",
    "RefusedRows",
    "StateReplacement",
    "Segment",
    "Sender",
    "Sink",
    "SinkContext",
    "SinkUnion",
    "SinkWriter",
    "StateRoller",
    "SupportsCompleteMode",
    "SupportsMembers",
    "SupportsOtherRows",
    "SupportsStateRolling",
    "SupportsWriteTimestamps",
    "TwoPhaseCommitSink",
    "Upserter",
    "WriteAheadSink",
    "WriterContext",
    "as_one",
    "base_of",
    "check_bytes_or_text",
    "check_not_null",
    "convert_refusing",
    "describe_state",
    "member_of",
    "owned",
    "rows_refused_by",
    "state_serializer_of",
    "targets_of",
    "warn_about_left_out",
    "with_dead_letters",
]
