"""gRPC, with its fork handlers off."""

from __future__ import annotations

import os

# The handlers may end a forked child before it becomes another program, and from then on every child: Spark's JVM would
# no longer start in a process that has used this client. With them off, a forked child can't use gRPC itself. Spark's
# Python workers can: the process that they are forked from has not loaded gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc  # reads the variable as it is imported

__all__ = ["grpc"]
