"""The contracts of a sink, and the template for two-phase commit.

An author of a two-phase sink writes a :class:`SinkWriter` (in tasks: write, flush, leave hidden), a
:class:`Committer` (on the driver: publish or throw away, idempotently) and two serializers;
:class:`TwoPhaseCommitSink` ties them. The protocol is in :mod:`penstock.sink.two_phase`.
"""

from penstock.sink._contracts import (
    CommitOutcome,
    Committer,
    Prepared,
    Rolled,
    Sink,
    SinkContext,
    SinkWriter,
    StateRoller,
    TwoPhaseCommitSink,
    WriterContext,
)

__all__ = [
    "CommitOutcome",
    "Committer",
    "Prepared",
    "Rolled",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "StateRoller",
    "TwoPhaseCommitSink",
    "WriterContext",
]
