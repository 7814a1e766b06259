"""Decoding and encoding Protobuf, next to JSON and Avro: the same rows, in one process and without Spark."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from google.protobuf.message_factory import GetMessageClass

from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table, interleave
from penstock.serialization.avro import arrow_to_avro
from penstock.serialization.formats import create_decoder, create_encoder
from penstock.serialization.formats._protobuf._schema import load_descriptor_file

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = """
syntax = "proto3";
package bench;
import "google/protobuf/timestamp.proto";
message Line { string sku = 1; int32 quantity = 2; }
message Order {
  int64 id = 1; string customer = 2; double amount = 3; bool paid = 4; google.protobuf.Timestamp at = 5;
  Line first = 6; repeated Line lines = 7; repeated int64 numbers = 8; string note = 9; int32 shop = 10;
}
"""


def descriptors(folder: Path) -> str:
    """Returns the path of the schema's descriptors."""
    (folder / "bench.proto").write_text(SCHEMA)
    compiler = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", f"-I{folder}"]
    subprocess.run([*compiler, f"--descriptor_set_out={folder}/bench.desc", "bench.proto"], check=True)
    return str(folder / "bench.desc")


def rows(type_: pa.DataType, count: int) -> pa.Array:
    """Returns that many orders."""
    lines = [{"sku": f"sku-{number}", "quantity": number} for number in range(3)]
    return pa.array(
        [
            {
                "id": number,
                "customer": f"customer {number % 1000}",
                "amount": number / 7,
                "paid": number % 2 == 0,
                "at": 1_700_000_000_000_000 + number * 1_000_003,
                "first": lines[number % 3],
                "lines": lines[: number % 4],
                "numbers": [number, number + 1],
                "note": "as the customer said on the phone",
                "shop": number % 50,
            }
            for number in range(count)
        ],
        type_,
    )


def measured(count: int, repetitions: int) -> list[Measurement]:
    """Reading and writing: rows per second of processor time, Protobuf here against each other way."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"descriptorFile": descriptors(Path(folder)), "message": "bench.Order"}
        own = create_decoder("protobuf", options)
        message = load_descriptor_file(options["descriptorFile"]).message("bench.Order")
        encoder = create_encoder("protobuf", options, own.type)
    column = rows(own.type, count)
    avro = {"schema": json.dumps(arrow_to_avro(own.type, "Order"))}
    others = {
        "json": (create_decoder("json", {}, own.type), create_encoder("json", {}, own.type)),
        "avro": (create_decoder("avro", avro), create_encoder("avro", avro, own.type)),
    }
    records = encoder.encode(column)
    parse = GetMessageClass(message).FromString

    def speed(call: object, *given: object) -> float:
        started = time.process_time()
        call(*given)  # type: ignore[operator]
        return count / (time.process_time() - started)

    found = []
    for name, (decoder, writer) in others.items():
        written = writer.encode(column)
        sides = {
            OURS: lambda: speed(own.decode, records),
            THEIRS: lambda d=decoder, w=written: speed(d.decode, w),  # type: ignore[misc]
        }
        size = f"{records.nbytes / count:.0f} and {written.nbytes / count:.0f} bytes a record"
        found.append(Measurement(f"reading, against {name}", "rows/s", "more", interleave(sides, repetitions), size))
        sides = {
            OURS: lambda: speed(encoder.encode, column),
            THEIRS: lambda w=writer: speed(w.encode, column),  # type: ignore[misc]
        }
        found.append(Measurement(f"writing, against {name}", "rows/s", "more", interleave(sides, repetitions), size))
    values = records.to_pylist()
    sides = {
        OURS: lambda: speed(own.decode, records),
        THEIRS: lambda: speed(lambda: [parse(value) for value in values]),
    }
    note = "which makes messages, and no columns"
    found.append(
        Measurement("reading, against Google's package", "rows/s", "more", interleave(sides, repetitions), note)
    )
    return found


def main() -> None:
    """Runs it, and renews the table of docs/performance/more.md unless ``--quick`` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows; docs/performance stays as it is")
    quick = parser.parse_args().quick
    found = measured(10_000 if quick else 100_000, 3 if quick else 5)
    print(as_table(found))
    if not quick:
        results = Results(ROOT / "benchmarks/results/formats.json", ["penstock", "ptars", "fastavro", "protobuf"])
        results.put("formats", found)
        results.write_page("formats")


if __name__ == "__main__":
    main()
