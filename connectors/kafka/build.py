"""Build script: compiles the native Kafka client. Without a C compiler the package is built in pure Python."""

import runpy
from pathlib import Path

NATIVE = Path(__file__).parent / "src" / "penstock_kafka" / "client" / "native"

problem = runpy.run_path(str(NATIVE / "_compile.py"))["compile_library"]()
if problem:
    # A library of other sources must not be shipped.
    (NATIVE / "record_batches.so").unlink(missing_ok=True)
    print(f"penstock-kafka: built without its native client, the slower Python one is used: {problem}")
else:
    print("penstock-kafka: native client built")
