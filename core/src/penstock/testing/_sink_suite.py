"""The cases that a sink has to pass. An author subclasses :class:`SinkSuite` and writes one fixture::

    class TestNotes(SinkSuite):
        connector = NotesConnector

        @pytest.fixture
        def new_target(self, tmp_path):
            def make():
                path = tmp_path / f"{uuid.uuid4()}.db"
                return SinkTarget({"path": str(path)}, read=lambda: read_notes(path))

            return make

Every case says in its docstring what it is for, what it does, when it passes, and what to look for if it does not. The
cases run on the contracts alone (:mod:`penstock.testing._sink_engine`).

After the suites of Flink's connector test framework and the tests of its two-phase commit and write-ahead templates;
crashes at every step, zombies and two drivers are Penstock's own.
"""

from __future__ import annotations

from penstock.testing._sink_commits import SinkCommitCases
from penstock.testing._sink_crashes import SinkCrashCases
from penstock.testing._sink_data import SinkDataCases
from penstock.testing._sink_in_batch import SinkInBatchCases
from penstock.testing._sink_letters import SinkLetterCases
from penstock.testing._sink_outcomes import SinkOutcomeCases
from penstock.testing._sink_resources import SinkResourceCases
from penstock.testing._sink_upserts import SinkUpsertCases

__all__ = ["SinkSuite"]


class SinkSuite(
    SinkDataCases,
    SinkCommitCases,
    SinkInBatchCases,
    SinkLetterCases,
    SinkOutcomeCases,
    SinkUpsertCases,
    SinkCrashCases,
    SinkResourceCases,
):
    """See the module. What an author may override is named in the suites that this one puts together:
    :class:`penstock.testing._sink_cases.SinkCases`, :class:`penstock.testing._sink_data.SinkDataCases` and
    :class:`penstock.testing._sink_crashes.SinkCrashCases`.
    """
