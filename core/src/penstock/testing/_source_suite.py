"""The cases that a source has to pass. An author subclasses :class:`SourceSuite` and writes one fixture::

    class TestNotes(SourceSuite):
        connector = NotesConnector

        @pytest.fixture
        def origin(self, tmp_path):
            path = tmp_path / "notes.db"
            return SourceOrigin({"path": str(path)}, put=lambda ids: insert_notes(path, ids))

Every case says in its docstring what it is for, what it does, when it passes, and what to look for if it does not. The
cases run on the contracts, driven as Spark drives them (:mod:`penstock.testing._source_engine`).

After the suites of Flink's connector test framework and the tests of its reader base.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from penstock.connector import Capability
from penstock.errors import PenstockError
from penstock.testing._capabilities import refuses
from penstock.testing._origin import SourceOrigin
from penstock.testing._source_data import SourceDataCases
from penstock.testing._source_engine import SourceQuery
from penstock.testing._source_reading import SourceReadingCases
from penstock.testing._source_resources import SourceResourceCases
from penstock.testing._source_restarts import SourceRestartCases

__all__ = ["SourceSuite"]


class SourceSuite(SourceReadingCases, SourceRestartCases, SourceDataCases, SourceResourceCases):
    """See the module. What an author may override is named in the suites that this one puts together:
    :class:`penstock.testing._source_cases.SourceCases`, :class:`penstock.testing._source_reading.SourceReadingCases`,
    :class:`penstock.testing._source_restarts.SourceRestartCases` and
    :class:`penstock.testing._source_data.SourceDataCases`.
    """

    # --- what is not declared -----------------------------------------------------------------------------------------

    @refuses(Capability.STREAM_READ)
    def test_streams_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't read streams says so.

        Steps: Spark asks for a stream reader.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave source_options out.
        """
        with self._refused(Capability.STREAM_READ):
            self._data_source(given).streamReader(self._struct(self.schema))

    @refuses(Capability.BATCH_READ)
    def test_batch_reads_are_refused(self, given: Mapping[str, str]) -> None:
        """Purpose: a connector that can't read a batch says so.

        Steps: Spark asks for a reader.
        Pass: BadConfigurationError that says what can't be done.
        If it fails: declare the capability, or leave source_options out.
        """
        with self._refused(Capability.BATCH_READ):
            self._data_source(given).reader(self._struct(self.schema))

    @refuses(Capability.BOUNDED)
    def test_a_stream_does_not_end(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a query that is meant to continue is not stopped.

        Steps: everything there is, is read.
        Pass: no offset says that it is the final one.
        If it fails: SplitEnumerator.has_ended is for sources that are declared to be bounded.
        """
        origin.put(range(5))
        self._read_rest(query, Counter(range(5)))
        assert not any(json.loads(offset).get("final") for offset in query.offsets)

    @refuses(Capability.RESUMABLE)
    def test_a_restart_fails_or_goes_on(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a source that can't resume where it was does not hang, nor break in strange ways.

        Steps: a batch is read and noted; the driver is restarted; more rows come.
        Pass: later rows are read, or the restart fails with an error of Penstock's.
        If it fails: tell what a restart can't do, with FatalError or DataLostError.
        """
        origin.put(range(10))
        batch = self._plan(query)
        query.read(batch)
        query.commit(batch)
        try:
            query.restart()
            query.plan()  # connects again
            origin.put(range(10, 20))
            rows = query.read(self._plan(query))
        except PenstockError:
            return
        assert rows

    @refuses(Capability.ADMISSION_CONTROL)
    def test_a_batch_takes_everything(self, query: SourceQuery) -> None:
        """Purpose: a batch job stops at a limit that is meant for streams, and misses the rest.

        Steps: the source is asked for its limits.
        Pass: it has none.
        If it fails: declare the capability, so that it is proven.
        """
        limits = query.source.read_limits()
        assert (limits.max_groups, limits.max_bytes, limits.max_records) == (None, None, None)

    @refuses(Capability.DISCOVERY)
    def test_rows_that_come_later_do_no_harm(self, query: SourceQuery, origin: SourceOrigin) -> None:
        """Purpose: a source that looks only once is not confused by what comes later.

        Steps: rows are put there and read; more are put there.
        Pass: the first rows have come once, and no error.
        If it fails: fix what is there when the stream begins.
        """
        origin.put(range(10))
        self._read_rest(query, Counter(range(10)))
        origin.put(range(10, 20))
        seen = Counter(range(10)) + self._ids(query.run_batch())
        assert not seen - Counter(range(20)) and not Counter(range(10)) - seen
