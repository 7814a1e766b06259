"""gRPC, imported in the only place that may import it."""

from __future__ import annotations

import os

# What gRPC does as a process forks may end the child before it becomes another program, and from then on every child:
# Spark's JVM would not start any more in a process that has used this client. Without it, a forked child can't use gRPC
# itself. Spark's Python workers can: the process that they are forked from has not loaded gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc  # reads the variable as it is imported

__all__ = ["grpc"]
