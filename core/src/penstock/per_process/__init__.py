"""What a process makes once and keeps, because making it costs more than most calls.

:class:`PerProcess` keeps what many use at once: connections, sessions. :class:`IdlePool` keeps what one user has at a
time: consumers, producers. Both are bounded, close what they drop and what had no user for a while, notice renewed
certificates, and start empty in a forked process.
"""

from penstock.per_process._idle_pool import IdlePool
from penstock.per_process._shared import PerProcess

__all__ = ["IdlePool", "PerProcess"]
