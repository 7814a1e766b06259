"""SQL statements with clauses that Spark would drop; ``integration-tests/test_sql.py`` has them on Spark."""

from __future__ import annotations

import pytest

from penstock.errors import BadConfigurationError
from penstock.spark._statements import refuse_dropped_clauses


class Session:
    def sql(self, sqlQuery, args=None, **given):
        return sqlQuery, args, given


refuse_dropped_clauses(Session)

CREATE = "CREATE TABLE t (id INT COMMENT 'it''s the key', location STRING) USING penstock.filesystem"


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (f"{CREATE} PARTITIONED BY (id)", "PARTITIONED BY"),
        (f"{CREATE}\n  partitioned\n  by (id, bucket(4, id))", "PARTITIONED BY"),
        (f"{CREATE} OPTIONS (a 'b') CLUSTER BY (id)", "CLUSTER BY"),
        (f"{CREATE} CLUSTERED BY (id) INTO 4 BUCKETS", "CLUSTERED BY"),
        (f"{CREATE} COMMENT 'AS it is' LOCATION '/data'", "LOCATION"),
        (f"/* ours */ {CREATE} -- where\n LOCATION '/data' AS SELECT 1", "LOCATION"),
        ("create or replace table `a`.`t` (id INT) using `penstock`.`kafka` LOCATION 'x'", "LOCATION"),
        ("REPLACE TABLE t (id INT) USING PENSTOCK.files PARTITIONED BY (id)", "PARTITIONED BY"),
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_a_clause_without_an_effect_is_refused(text, clause, by_name):
    with pytest.raises(BadConfigurationError, match=f"{clause} has no effect"):
        Session().sql(sqlQuery=text) if by_name else Session().sql(text)


@pytest.mark.parametrize(
    "text",
    [
        CREATE,
        f"{CREATE} OPTIONS (location '/data', path 'PARTITIONED BY') COMMENT 'LOCATION' TBLPROPERTIES ('a' = 'b')",
        f"{CREATE} -- PARTITIONED BY (id)",
        f"{CREATE} AS SELECT location FROM x CLUSTER BY id",
        "CREATE TABLE t (id INT) USING parquet PARTITIONED BY (id) COMMENT 'USING penstock.filesystem'",
        "CREATE TEMPORARY VIEW v USING penstock.filesystem OPTIONS (path 'a')",
        "SELECT 'CREATE TABLE t USING penstock.filesystem LOCATION'",
    ],
)
def test_other_statements_are_run(text):
    assert Session().sql(text, [1], a=2) == (text, [1], {"a": 2})
