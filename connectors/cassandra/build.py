"""Build script: compiles the native cell walker. Without a C compiler the package is built in pure Python."""

import runpy
from pathlib import Path

NATIVE = Path(__file__).parent / "src" / "penstock_cassandra" / "native"

problem = runpy.run_path(str(NATIVE / "_compile.py"))["compile_library"]()
if problem:
    # A library of other sources must not be shipped.
    (NATIVE / "cells.so").unlink(missing_ok=True)
    print(f"penstock-cassandra: built without its native part, the slower Python one is used: {problem}")
else:
    print("penstock-cassandra: native part built")
