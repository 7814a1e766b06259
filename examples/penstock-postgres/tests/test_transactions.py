"""What prepared transactions do: to late calls, to other attempts, and to what stays behind."""

from __future__ import annotations

import pyarrow as pa
import pytest
from penstock_postgres import PostgresConnector
from penstock_postgres._options import SinkOptions
from penstock_postgres.client import TwoPhaseTable

from penstock.errors import BadConfigurationError, RetriableError
from penstock.sink import Found, Kept, SinkContext, WriterContext
from penstock.testing import SinkQuery

SCHEMA = pa.schema([("id", pa.int64())])
BATCH = pa.record_batch([pa.array([1, 2, 3], pa.int64())], schema=SCHEMA)


class Target:
    def __init__(self, postgres, columns="id bigint", **options):
        self.postgres, self.table = postgres, postgres.table(columns)
        given = {**postgres.options(self.table), **options}
        values = PostgresConnector.sink_options.parse(given, owner="sink")
        self.sink = PostgresConnector().create_sink(values, SCHEMA).start(SinkContext("q", SCHEMA))

    def committer(self, query="q"):
        return self.sink.create_committer(SinkContext(query, SCHEMA))

    def attempt(self, name, base=0, query="q"):
        """One attempt; returns its committable."""
        writer = self.sink.create_writer(WriterContext(query, SCHEMA, attempt_id=name * 32, base=base))
        writer.write(BATCH)
        writer.flush()
        try:
            return writer.prepare_commit().committables[0]
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()

    def rows(self):
        return sorted(i for (i,) in self.postgres.run(f"select id from {self.table}"))

    def noted(self):
        return [gid for (gid,) in self.postgres.run(f"select gid from {self.table.split('.')[0]}.penstock_commits")]


@pytest.fixture
def target(postgres):
    made = Target(postgres)
    yield made
    for gid in postgres.prepared(made.table):
        postgres.run(f"rollback prepared '{gid}'")


def test_committed_open_and_lost_can_be_told_apart(target):
    committer = target.committer()
    published, open_, lost = target.attempt("a"), target.attempt("b"), target.attempt("c")
    assert committer.look([published, open_, lost]) == [Found.OPEN] * 3 and target.rows() == []
    assert committer.publish([published]) == [Found.COMMITTED]
    target.postgres.run(f"rollback prepared '{lost}'")
    assert committer.look([published, open_, lost]) == [Found.COMMITTED, Found.OPEN, Found.LOST]
    assert target.rows() == [1, 2, 3]
    committer.close()


@pytest.mark.parametrize("end", ["seal", "discard"])
def test_late_calls_change_nothing(target, end):
    first, second = target.committer(), target.committer()
    ends = {"seal": lambda one, gids: one.seal(gids), "discard": lambda one, gids: one.discard(gids, [])}[end]
    published, sealed = target.attempt("a"), target.attempt("b")
    for _ in range(2):
        assert first.publish([published]) == [Found.COMMITTED]
        ends(second, [published, sealed])
        assert first.publish([sealed]) == [Found.LOST]
    assert target.rows() == [1, 2, 3] and target.postgres.prepared(target.table) == []


def test_garbage_is_what_is_older_and_not_kept(target):
    committer = target.committer()
    old, kept, new, foreign = (
        target.attempt("a", 3),
        target.attempt("b", 3),
        target.attempt("c", 4),
        target.attempt("d", 3, "other"),
    )
    for gid in (target.attempt("e", 3), target.attempt("f", 4)):
        committer.publish([gid])
    assert committer.clear(Kept(4, 0, [kept])) == 2
    assert sorted(target.postgres.prepared(target.table)) == sorted([kept, new, foreign])
    assert [gid[-1] for gid in target.noted()] == ["f"]
    assert committer.look([old, kept]) == [Found.LOST, Found.OPEN]
    committer.leave()
    assert target.noted() == []


def test_a_row_that_is_refused_leaves_nothing_open(postgres):
    target = Target(postgres, "id bigint check (id < 3)")
    with pytest.raises(Exception, match="rows_id_check"):
        target.attempt("a")
    assert target.rows() == [] and postgres.prepared(target.table) == []
    waiting = "select * from pg_stat_activity where application_name = 'penstock' and xact_start is not null"
    assert postgres.run(waiting) == []


def test_a_key_that_a_prepared_attempt_holds_is_waited_for_but_not_for_ever(postgres, tmp_path):
    """The second attempt of a task whose first one was prepared, and then lost with its executor."""
    target = Target(postgres, "id bigint primary key", requestTimeout="50ms")
    query = SinkQuery(target.sink, SCHEMA, tmp_path, "q")
    plan = query.plan(0)
    query.attempt(plan, 0, 0, [BATCH])
    for _ in range(2):
        with pytest.raises(RetriableError, match=r"lock timeout.*earlier attempt of the batch: restart the query"):
            query.attempt(plan, 0, 0, [BATCH])
    query.restart()
    query.run_all([[[BATCH]]])
    assert target.rows() == [1, 2, 3] and postgres.prepared(target.table) == []


def test_a_server_that_prepares_nothing_is_refused(target):
    class Without:
        def execute(self, statement):
            return self

        def fetchone(self):
            return ("0",)

    with pytest.raises(BadConfigurationError, match="set max_prepared_transactions"):
        TwoPhaseTable.set_up(Without(), target.sink.table)


def test_tls_verifies_the_server():
    given = {"database": "d", "table": "t", "host": "h", "tls": "true", "tls.caFile": "ca.pem"}
    for more, mode in (({}, "verify-full"), ({"tls.checkHostname": "false"}, "verify-ca")):
        values = PostgresConnector.sink_options.parse({**given, **more}, owner="sink")
        arguments = SinkOptions.from_values(values).server.arguments()
        assert (arguments["sslmode"], arguments["sslrootcert"]) == (mode, "ca.pem")


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("host", "/nowhere", RetriableError),
        ("port", "1", RetriableError),
        ("database", "nothing", BadConfigurationError),
        ("user", "nobody", BadConfigurationError),
        ("table", "nothing.rows", BadConfigurationError),
    ],
)
def test_what_can_not_be_reached_is_told(postgres, option, value, error):
    with pytest.raises(error):
        Target(postgres, **{option: value})
