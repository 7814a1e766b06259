"""Every released version of what is stored must open: golden files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.serialization import Versioned
from penstock.sink import CheckpointLocation
from penstock.storage import LocalStorage
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable, TransactionRef
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog
from penstock_pravega.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER, PravegaState, SegmentRange

GOLDEN = Path(__file__).parent / "golden"
EPOCH = 1 << 32

REF = TransactionRef("s/out", 0x0123456789ABCDEF << 64 | 0xFEDCBA9876543210)
COMMITTABLE = PravegaCommittable(
    REF, ((EPOCH | 1, 100), (EPOCH | 2, 2**40)), 17, 3, "a" * 32, 600_000, 1_790_000_000_000
)
FORMS = {
    "split-v1": (SPLIT_SERIALIZER, SegmentRange("s/in", EPOCH | 3, 1000, 2000)),
    "state-v1": (
        STATE_SERIALIZER,
        PravegaState({"s/in": {0: 7, EPOCH | 3: 1000}, "t/in": {2 * EPOCH | 1: 0}}, {"s/in": {EPOCH | 3: 5000}}),
    ),
    "committable-v1": (COMMITTABLE_SERIALIZER, COMMITTABLE),
    "committable-v2": (COMMITTABLE_SERIALIZER, replace(COMMITTABLE, latest_ms=1_780_000_000_000)),
}


def stored(name):
    """As it stands in checkpoints."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", FORMS)
def test_golden_files_open(name):
    serializer, value = FORMS[name]
    assert serializer.unpack(Versioned.from_json(stored(name))) == value


@pytest.mark.parametrize("name", [name for name in FORMS if name != "committable-v1"])
def test_what_is_written_now_has_a_golden_file(name):
    serializer, value = FORMS[name]
    assert serializer.pack(value).to_json() == stored(name)


@pytest.mark.parametrize(("name", "base"), [("note-v1", -1), ("note-v2", 7)])
def test_a_note_opens(tmp_path, name, base):
    folder = tmp_path / "penstock" / "pravega-transactions"
    folder.mkdir(parents=True)
    (folder / f"{REF.id:032x}.json").write_bytes((GOLDEN / f"{name}.json").read_bytes())
    checkpoint = CheckpointLocation(LocalStorage(), str(tmp_path))
    notes = TransactionLog(checkpoint, "q" * 32)
    assert notes.read() == [OpenTransaction(REF, 600_000, base)]
    assert TransactionLog(checkpoint, "r" * 32).read() == ([] if base >= 0 else notes.read())
    notes.write(OpenTransaction(REF, 600_000, 7))
    assert json.loads((folder / f"{REF.id:032x}.json").read_bytes()) == stored("note-v2")
