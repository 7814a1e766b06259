"""Messages whose bytes are made here: what the driver says of them reaches its own encoding."""

from __future__ import annotations

import io

from cassandra import ConsistencyLevel
from cassandra.protocol import BatchMessage, OptionsMessage, ProtocolHandler
from cassandra.query import BatchType

from penstock_cassandra.client._raw import RawHandler, _Statements


def test_what_the_driver_says_of_a_message_is_passed_on(monkeypatch):
    """ScyllaDB's driver says more than Cassandra's does, by name."""
    seen = []

    def encode(msg, *how, **named):
        body = io.BytesIO()
        msg.send_body(body, 4, **named)
        seen.append((how, named, body.getvalue()))
        return b""

    monkeypatch.setattr(ProtocolHandler, "encode_message", encode)
    batch = BatchMessage(BatchType.UNLOGGED, _Statements(1, b"a statement", 5), ConsistencyLevel.ONE)
    RawHandler.encode_message(batch, 7, 4, protocol_features="features")
    monkeypatch.setattr(OptionsMessage, "send_body", lambda *given, **named: None)
    RawHandler.encode_message(OptionsMessage(), 8, 4, None, False)
    (how, named, body), other = seen
    assert (how, named) == ((7, 4), {"protocol_features": "features"}) and b"a statement" in body
    assert other[:2] == ((8, 4, None, False), {})
