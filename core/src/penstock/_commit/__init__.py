"""The commit protocol: what the driver decides, what tasks do for it, and the chain of links that remembers it.

For the engine, the command line and the kit; authors of connectors see :mod:`penstock.sink` only. Begin with
``_two_phase.py``, which says who may do what.
"""

from penstock._commit._chain import (
    BEFORE_ALL,
    Chain,
    Head,
    Link,
    LinkKind,
    StateItem,
    TaskOutput,
    committables_of,
    is_number,
    now_ms,
)
from penstock._commit._publishing import DisplacedError, Publishing, displaced, undone
from penstock._commit._tasks import (
    AnySink,
    BatchPlan,
    PlannedBatch,
    TaskResult,
    driver_context,
    grouped_by_owner,
    metrics_of,
    offsets_of,
    open_writer,
    roll_states,
    run_task,
    start_sink,
    write_all,
)
from penstock._commit._two_phase import (
    Batch,
    BatchPendingError,
    EngineLog,
    GaveWayError,
    RunMemory,
    TwoPhaseCommit,
)

__all__ = [
    "BEFORE_ALL",
    "AnySink",
    "Batch",
    "BatchPendingError",
    "BatchPlan",
    "Chain",
    "DisplacedError",
    "EngineLog",
    "GaveWayError",
    "Head",
    "Link",
    "LinkKind",
    "TaskOutput",
    "PlannedBatch",
    "Publishing",
    "RunMemory",
    "StateItem",
    "TaskResult",
    "TwoPhaseCommit",
    "committables_of",
    "displaced",
    "driver_context",
    "grouped_by_owner",
    "metrics_of",
    "is_number",
    "now_ms",
    "offsets_of",
    "open_writer",
    "roll_states",
    "run_task",
    "start_sink",
    "undone",
    "write_all",
]
