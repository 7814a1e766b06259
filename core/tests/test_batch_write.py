"""``df.write`` to a sink that keeps no decision of a write: what a commit that fails says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import RetriableError
from penstock.sink import PreparedCommit
from penstock.spark._write import BatchWriter
from suite.scripted_sink import PlainScriptedSink

SCHEMA = pa.schema([("id", pa.int64())])


def away():
    raise RetriableError("the system is away")


def test_a_commit_that_can_not_publish_says_that_a_part_may_be_visible():
    sink = PlainScriptedSink(prepared=PreparedCommit(committables=["a", "b"]), on={"publish": away})
    writer = BatchWriter(sink, SCHEMA, "scripted", None, None)
    messages = [writer.write(iter([pa.record_batch([[1]], schema=SCHEMA)]))]
    with pytest.raises(RetriableError, match=r"the system is away.*A part of the write may be visible already"):
        writer.commit(messages)


def test_before_the_decision_nothing_is_visible(monkeypatch):
    sink = PlainScriptedSink(prepared=PreparedCommit(committables=["a"]))
    writer = BatchWriter(sink, SCHEMA, "scripted", None, None)
    messages = [writer.write(iter([pa.record_batch([[1]], schema=SCHEMA)]))]
    monkeypatch.setattr(writer._memory, "create", lambda *_: away())
    with pytest.raises(RetriableError, match=r"^the system is away") as failed:
        writer.commit(messages)
    assert "visible" not in str(failed.value)
