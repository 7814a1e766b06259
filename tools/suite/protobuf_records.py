"""Schemas of Protobuf, as the compiler writes them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

__all__ = ["ORDER", "PROTO2", "compiled", "descriptor_file"]

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; GREEN = 1; BLUE = -5; }
message Line { string sku = 1; int32 quantity = 2; }
message Order {
  int32 i32 = 1; sint32 s32 = 2; sfixed32 sf32 = 3; int64 i64 = 4; sint64 s64 = 5; sfixed64 sf64 = 6;
  uint32 u32 = 7; fixed32 f32 = 8; uint64 u64 = 9; fixed64 f64 = 10;
  double ratio = 11; float single = 12; bool flag = 13; string note = 14; bytes raw = 15; Color color = 16;
  optional int32 maybe = 17;
  repeated Color colors = 18; repeated int32 numbers = 19; repeated Line lines = 20; Line line = 21;
  map<uint32, string> names = 22; map<string, Line> by_sku = 23;
  google.protobuf.Timestamp at = 24; google.protobuf.Duration took = 25;
  google.protobuf.Int64Value wrapped = 26; google.protobuf.StringValue wrapped_text = 27;
  oneof payment { string card = 28; int64 cash = 29; Line voucher = 30; }
}
"""

PROTO2 = """
syntax = "proto2";
package old;
enum Color { RED = 3; GREEN = 1; }
message Record {
  required int64 id = 1; optional string name = 2 [default = "none"]; optional int32 count = 3;
  optional Color color = 4 [default = GREEN]; repeated int32 numbers = 5; repeated int32 packed = 6 [packed = true];
}
"""


def compiled(files: Mapping[str, str]) -> FileDescriptorSet:
    """Returns the descriptors of the files, by their names, with those that they import."""
    with tempfile.TemporaryDirectory() as work:
        for name, text in files.items():
            path = Path(work, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        out = Path(work, "out")
        known = _of_packages()
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{work}", *(f"-I{one}" for one in known)]
        subprocess.run([*command, "--include_imports", f"--descriptor_set_out={out}", *files], check=True)
        return FileDescriptorSet.FromString(out.read_bytes())


def descriptor_file(directory: Path, files: Mapping[str, str]) -> tuple[Any, str]:
    """Returns the pool of the files, and the path of their descriptors."""
    found = compiled(files)
    path = directory / "all.desc"
    path.write_bytes(found.SerializeToString())
    pool = DescriptorPool()
    for one in found.file:
        pool.AddSerializedFile(one.SerializeToString())
    return pool, str(path)


def _of_packages() -> list[Path]:
    import google.type

    return [Path(next(iter(google.type.__path__))).parents[1]]
