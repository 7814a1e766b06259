"""What is mutated, and which tests are to notice it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SCOPES", "Scope"]


@dataclass(frozen=True)
class Scope:
    """``stages`` are what pytest is told: the quickest tests, then what tries those that are left.

    None of them starts Spark or a server.
    """

    sources: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]


_COMMIT = "core/src/penstock/_commit"
_SINK = "core/src/penstock/sink"
_FILES = "connectors/filesystem/src/penstock_filesystem/sink"
_FILE_SOURCE = "connectors/filesystem/src/penstock_filesystem/source"
_KAFKA = "connectors/kafka/src/penstock_kafka"
_PRAVEGA = "connectors/pravega/src/penstock_pravega/sink"

#: By name.
SCOPES = {
    "two-phase": Scope(
        tuple(f"{_COMMIT}/{name}.py" for name in ("_two_phase", "_publishing", "_chain", "_tasks")),
        (
            (
                "core/tests/test_two_phase_planning.py",
                "core/tests/test_two_phase_deciding.py",
                "core/tests/test_two_phase_ending.py",
                "core/tests/test_publishing.py",
                "core/tests/test_decision_log.py",
                "core/tests/test_sink_tasks.py",
                "core/tests/test_stored_forms.py",
                "core/tests/test_two_phase_commit.py",
                "core/tests/test_in_batch.py",
            ),
            (
                "core/tests/test_simulation.py",
                "core/tests/test_write_ahead_sink.py",
                "core/tests/test_idempotent_sink.py",
                "tools/tests/test_broken_rules.py",
            ),
        ),
    ),
    "write-ahead": Scope(
        (f"{_SINK}/_write_ahead.py",),
        (
            (
                "core/tests/test_write_ahead_steps.py",
                "core/tests/test_stored_forms.py",
                "core/tests/test_write_ahead_sink.py",
            ),
            ("core/tests/test_simulation.py",),
        ),
    ),
    "files": Scope(
        tuple(
            f"{_FILES}/{name}.py"
            for name in (
                "_committer",
                *(f"staging/_{kind}" for kind in ("rename", "spooled", "multipart", "blocks", "move")),
            )
        ),
        (
            (
                "connectors/filesystem/tests/test_sink_committers.py",
                "connectors/filesystem/tests/test_simulation.py",
            ),
            (
                "connectors/filesystem/tests/test_sink_exactly_once.py",
                "connectors/filesystem/tests/test_sink_azure.py",
                "connectors/filesystem/tests/test_sink_gcs.py",
                "connectors/filesystem/tests/test_sink_lost_chunks.py",
            ),
        ),
    ),
    "kafka": Scope(
        tuple(
            f"{_KAFKA}/{name}.py"
            for name in ("sink/_committer", "sink/_committable", "transactions/_names", "client/_transactions")
        ),
        (
            ("connectors/kafka/tests/test_sink_committer_steps.py",),
            ("connectors/kafka/tests/test_simulation.py::test_schedules_by_chance",),
        ),
    ),
    "pravega": Scope(
        tuple(f"{_PRAVEGA}/{name}.py" for name in ("_committer", "_committable")),
        (("connectors/pravega/tests/test_sink_committer_steps.py", "connectors/pravega/tests/test_stored_forms.py"),),
    ),
    "log-source": Scope(
        tuple(
            f"core/src/penstock/source/log/{name}.py"
            for name in ("_enumerator", "_limits", "_losses", "_positions", "_start_stop", "_tracking")
        ),
        (
            (
                "core/tests/test_log_source.py",
                "core/tests/test_log_source_sequences.py",
                "core/tests/test_alignment.py",
                "core/tests/test_reading.py",
            ),
        ),
    ),
    "file-source": Scope(
        tuple(
            f"{_FILE_SOURCE}/{name}.py"
            for name in (
                *("_enumerator", "discovery/_listing", "discovery/_notifications", "_cleaner"),
                *("tracking/_tracker", "tracking/_run_store"),
            )
        ),
        (
            tuple(
                f"connectors/filesystem/tests/test_source_{name}.py"
                for name in ("tracking", "enumerator", "discovery", "policies", "first_edition")
            ),
        ),
    ),
    "options": Scope(
        tuple(f"core/src/penstock/options/{name}.py" for name in ("_set", "_conditions", "_units", "_restarts")),
        (
            (
                "core/tests/test_options.py",
                "core/tests/test_options_rules.py",
                "core/tests/test_options_common.py",
                "core/tests/test_options_at_restart.py",
            ),
        ),
    ),
}
