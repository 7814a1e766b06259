"""The sink through the protocol on a local disk: exactly the rows, few files, and no accident that changes either."""

from __future__ import annotations

import glob
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from penstock.errors import DataLostError
from penstock.sink import Found, Kept

COMMITTED, ALREADY, LOST = "published", "already", "lost"
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])

MINUTE = 60_000_000_000


def read_ids(paths):
    """The ids in finished files of any format, in order of value."""
    ids = []
    for path in paths:
        if path.endswith(".parquet"):
            ids += pq.read_table(path, columns=["id"])["id"].to_pylist()
        elif path.endswith(".orc"):
            ids += orc.read_table(path, columns=["id"])["id"].to_pylist()
        elif path.endswith(".avro"):
            import fastavro

            with open(path, "rb") as file:
                ids += [row["id"] for row in fastavro.reader(file)]
        else:
            reader = "read_csv" if ".csv" in path else "read_json"
            ids += [row[0] for row in duckdb.sql(f"select id from {reader}('{path}')").fetchall()]
    return sorted(ids)


@pytest.mark.parametrize(
    ("file_format", "batches"), [("parquet", 100), ("orc", 30), ("csv", 100), ("json", 30), ("avro", 30)]
)
def test_slow_stream_makes_few_files_with_exactly_its_rows(
    tmp_path, sink_query, numbers, visible, file_format, batches
):
    """100 micro-batches of 4 tasks are 400 chunks: the parts have the configured size, all but the last."""
    size = 20_000
    query = sink_query(
        tmp_path, SCHEMA, tasks=4, format=file_format, maxPartSize=size, bucketAssigner="basePath", header=True
    )
    written = 0
    for _ in range(batches):
        shares = [numbers(range(written + 10 * task, written + 10 * task + 10), 40) for task in range(4)]
        assert set(query.run(*([share] for share in shares))) <= {COMMITTED}
        written += 40
        query.now += MINUTE // 60
        assert len(query.states) <= 32 + 1 + 4
    query.finish()
    files = visible(tmp_path)
    assert read_ids(files) == list(range(written))
    sizes = sorted(os.path.getsize(path) for path in files)
    assert 1 <= len(files) <= 20
    if file_format not in ("parquet", "orc"):  # their chunks shrink when they are merged
        assert sizes[-1] < 2 * size and all(one >= size for one in sizes[1:])
    query.clean_up()
    assert query.clean_up() == 0
    assert not glob.glob(f"{tmp_path}/.penstock/*/*")


def test_readers_never_see_anything_but_committed_whole_rows(tmp_path, sink_query, numbers, visible):
    """At every step of every batch, four kinds of reader see exactly the rows published so far."""
    query = sink_query(tmp_path, SCHEMA, format="parquet", maxPartSize=4000, bucketAssigner="basePath")
    published: set[int] = set()

    def check():
        files = visible(tmp_path)
        assert read_ids(files) == sorted(published)
        assert sorted(glob.glob(f"{tmp_path}/**/*.parquet", recursive=True)) == files
        listed = ds.dataset(str(tmp_path), format="parquet").to_table() if files else None
        assert sorted(listed["id"].to_pylist() if listed and listed.num_columns else []) == sorted(published)
        if files:
            rows = duckdb.sql(f"select id from read_parquet('{tmp_path}/**/*.parquet')").fetchall()
            assert sorted(row[0] for row in rows) == sorted(published)

    for number in range(12):
        rolled = [one for task in range(2) for one in query.roll(task=task)]
        check()
        prepared = [
            query.write([numbers(range(number * 200 + 100 * t, number * 200 + 100 * t + 100))], t) for t in (0, 1)
        ]
        check()
        stored = query.decide(prepared, rolled)
        check()
        for part in stored:
            assert query.commit([part]) == [COMMITTED]
        open_ids = set()
        for chunk in query.live():
            open_ids |= set(pq.read_table(tmp_path / chunk.path)["id"].to_pylist())
        published = set(range((number + 1) * 200)) - open_ids
        check()
    query.finish()
    published = set(range(12 * 200))
    check()


def test_commit_may_be_repeated_and_interrupted_anywhere(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, rollOnCheckpoint=True, bucketAssigner="columns", partitionColumns="id")
    stored = query.decide([query.write([numbers(range(6))])])
    assert len(stored) == 6
    assert visible(tmp_path) == []
    assert query.commit(stored[:3]) == [COMMITTED] * 3
    assert query.commit(stored) == [ALREADY] * 3 + [COMMITTED] * 3
    assert query.commit(stored) == [ALREADY] * 6
    assert len(visible(tmp_path)) == 6


def test_a_part_that_a_reader_has_taken_away_is_not_lost(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, rollOnCheckpoint=True, bucketAssigner="basePath")
    stored = query.decide([query.write([numbers(range(5))])])
    assert query.commit(stored) == [COMMITTED]
    for path in visible(tmp_path):
        os.unlink(path)
    assert query.commit(stored) == [ALREADY]
    query.clean_up()
    assert not glob.glob(f"{tmp_path}/.penstock/*/*")


def test_what_was_sealed_can_not_be_published(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, rollOnCheckpoint=True, bucketAssigner="basePath")
    stored = query.decide([query.write([numbers(range(5))]), query.write([numbers(range(5, 9))])])
    parts = [query.sink.committable_serializer.unpack(one) for one in stored]
    assert query.commit(stored[:1]) == [COMMITTED]
    for _ in range(2):
        query.committer().seal(parts)
        assert query.committer().publish(parts[1:]) == [Found.LOST], "a call that comes late"
        assert query.commit(stored) == [ALREADY, LOST]
    assert read_ids(visible(tmp_path)) == list(range(5))
    query.clean_up()
    assert not glob.glob(f"{tmp_path}/.penstock/*/*")


def test_what_is_gone_is_lost_and_nothing_is_deleted_for_it(tmp_path, sink_query, numbers, visible):
    """A lost part keeps the chunks it would have replaced: a withdrawn decision goes back to them."""
    query = sink_query(tmp_path, SCHEMA, format="csv", bucketAssigner="basePath")
    query.run([numbers(range(3))], [numbers(range(3, 6))])
    before = query.snapshot()
    stored = query.decide(rolled=query.roll(finish=True))
    part = query.sink.committable_serializer.unpack(stored[0])
    (tmp_path / part.hidden).unlink()
    assert query.commit(stored) == [ALREADY], "as far as can be told, a reader has taken it away"
    (tmp_path / part.witness).unlink()
    assert query.commit(stored) == [LOST]
    query.restart(before)
    assert query.finish() == [COMMITTED]
    (path,) = visible(tmp_path)
    assert sorted(line.split(",")[0] for line in Path(path).read_text().split()) == list("012345")


@pytest.mark.parametrize("crash", ["before decision", "after decision", "half committed", "before clean-up"])
def test_crash_anywhere_in_a_roll(tmp_path, sink_query, numbers, visible, crash):
    query = sink_query(tmp_path, SCHEMA, format="csv", header=True, partitionColumns="id")
    for number in range(3):
        query.run([numbers([0, 1], 3)], [numbers([0, 1], number + 3)])
    before = query.snapshot()
    rolled = query.roll(finish=True)
    if crash == "before decision":
        query.restart(before)
        rolled = query.roll(finish=True)
    stored = query.decide(rolled=rolled)
    if crash == "half committed":
        query.commit(stored[:1])
    if crash != "before decision":
        query.sink = query.task_sink()
    query.commit(stored)
    query.clean_up()
    lines = [line for path in visible(tmp_path) for line in Path(path).read_text().split()[1:]]
    assert sorted(lines) == sorted([f"{i:0{width}d}" for i in (0, 1) for width in (3, 3, 3, 3, 4, 5)])
    assert not glob.glob(f"{tmp_path}/.penstock/*/*")


def test_undecided_attempts_are_taken_back_and_never_touch_a_live_chunk(tmp_path, sink_query, numbers, visible):
    """A roll that loses had adopted a live chunk to publish it: its abort must leave the chunk alone."""
    query = sink_query(tmp_path, SCHEMA, format="json", bucketAssigner="basePath")
    query.run([numbers(range(4))])
    losing_roll, losing_write = query.roll(finish=True), query.write([numbers(range(100, 104))])
    committer = query.committer()
    for _ in range(2):
        committer.discard(losing_write.committables, losing_write.states)
        committer.discard([part for _, one in losing_roll for part in one.committables], [])
    assert [chunk.path for chunk in query.live()] == [
        os.path.relpath(path, tmp_path) for path in glob.glob(f"{tmp_path}/.penstock/q1/*/*")
    ]
    query.finish()
    assert read_ids(visible(tmp_path)) == list(range(4))


def test_zombie_that_writes_on_after_it_has_lost_changes_nothing(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, format="csv", maxPartSize=300, bucketAssigner="basePath")
    zombie = query.task_sink().create_writer(query.context(0))
    zombie.write(numbers(range(50, 60), 20))
    query.run([numbers(range(10), 20)])
    query.clean_up()  # takes the zombie's file away under its hands
    for start in (60, 70):
        zombie.write(numbers(range(start, start + 10), 20))
    zombie.prepare_commit()
    query.run([numbers(range(10, 20), 20)])
    query.finish()
    query.clean_up()
    lines = [line for path in visible(tmp_path) for line in Path(path).read_text().split()]
    assert sorted(lines) == [f"{i},{i:020d}" for i in sorted(range(20), key=str)]
    assert not glob.glob(f"{tmp_path}/.penstock/*/*")


def test_two_attempts_of_a_task_share_no_name(tmp_path, sink_query, numbers):
    query = sink_query(tmp_path, SCHEMA, rollOnCheckpoint=True, bucketAssigner="basePath")
    one, two = (query.write([numbers(range(3))]).committables[0] for _ in range(2))
    assert one.final != two.final and one.hidden != two.hidden


def test_clean_up_never_touches_another_query_nor_what_may_be_running(tmp_path, sink_query, numbers):
    mine = sink_query(tmp_path, SCHEMA, query_id="mine", bucketAssigner="basePath")
    other = sink_query(tmp_path, SCHEMA, query_id="mine2", bucketAssigner="basePath")
    other.write([numbers(range(3))])
    mine.write([numbers(range(3))])
    foreign = tmp_path / ".penstock" / "mine" / "notes.txt"
    foreign.write_text("not ours")
    assert mine.clean_up() == 0, "batch 0 may still be running"
    mine.batch = 1
    running = mine.write([numbers(range(3))]).states[0]
    assert mine.clean_up() == 1
    assert (tmp_path / running.path).exists()
    assert foreign.exists()
    assert len(glob.glob(f"{tmp_path}/.penstock/mine2/0/*")) == 1


def test_age_and_inactivity_publish_what_is_open(tmp_path, sink_query, numbers, visible):
    query = sink_query(
        tmp_path, SCHEMA, bucketAssigner="basePath", rolloverInterval="12 min", inactivityInterval="4 min"
    )
    for minute in range(0, 12, 3):
        query.run([numbers([minute])])
        assert visible(tmp_path) == [], "neither old nor inactive"
        query.now += 3 * MINUTE
    query.run([numbers([12])])
    assert read_ids(visible(tmp_path)) == [0, 3, 6, 9], "12 minutes old"
    query.now += 4 * MINUTE
    query.commit(query.decide(rolled=query.roll()))
    assert read_ids(visible(tmp_path)) == [0, 3, 6, 9, 12], "4 minutes without a row"
    assert query.states == []


def test_indexes_go_on_after_a_restart_and_names_follow_the_options(tmp_path, sink_query, numbers, visible):
    options = {"rollOnCheckpoint": True, "bucketAssigner": "basePath", "partPrefix": "rows", "partSuffix": "-eu"}
    query = sink_query(tmp_path, SCHEMA, **options)
    query.run([numbers([1])], [numbers([2])])
    again = sink_query(tmp_path, SCHEMA, **options)
    again.restart(query.snapshot())
    again.run([numbers([3])])
    names = [os.path.basename(path) for path in visible(tmp_path)]
    assert [name.rsplit("-", 2)[0] for name in names] == ["rows-0-0", "rows-0-1", "rows-1-0"]
    assert all(name.endswith("-eu.parquet") for name in names)


def test_full_parts_are_cut_within_a_batch(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, format="csv", maxPartSize=10_000, bucketAssigner="basePath", tasks=1)
    query.run([numbers(range(start, start + 100), 40) for start in range(0, 1000, 100)])
    full = visible(tmp_path)
    assert len(full) == 3 and all(10_000 <= os.path.getsize(path) < 15_000 for path in full)
    query.finish()
    assert sum(len(Path(path).read_text().split()) for path in visible(tmp_path)) == 1000


def test_more_buckets_than_may_be_open(tmp_path, sink_query, numbers, visible):
    query = sink_query(tmp_path, SCHEMA, format="csv", partitionColumns="id", maxOpenBuckets=3, tasks=1)
    query.run([numbers(range(10)), numbers(range(10))])
    assert len(query.states) == 20
    query.finish()
    assert len(visible(tmp_path)) == 10


def test_chunks_that_do_not_fit_together_become_parts_of_their_own(tmp_path, sink_query, numbers, visible):
    """The query comes back with another format: what is open is still published, as what it is."""
    query = sink_query(tmp_path, SCHEMA, format="parquet", bucketAssigner="basePath")
    query.run([numbers([1])], [numbers([2])])
    again = sink_query(tmp_path, SCHEMA, format="json", bucketAssigner="basePath")
    again.restart(query.snapshot())
    again.run([numbers([3])], [numbers([4])])
    again.finish()
    assert sorted(os.path.splitext(path)[1] for path in visible(tmp_path)) == [".json", ".parquet"]
    assert read_ids(visible(tmp_path)) == [1, 2, 3, 4]


def test_missing_chunk_is_named(tmp_path, sink_query, numbers):
    query = sink_query(tmp_path, SCHEMA, bucketAssigner="basePath")
    query.run([numbers([1])], [numbers([2])])
    (tmp_path / query.live()[0].path).unlink()
    with pytest.raises(DataLostError, match=r"\.chunk with 1 committed rows .* is gone"):
        query.roll(finish=True)


def test_failed_writer_leaves_nothing(tmp_path, sink_query, numbers):
    query = sink_query(tmp_path, SCHEMA, bucketAssigner="basePath")
    writer = query.task_sink().create_writer(query.context(attempt_id=uuid.uuid4().hex))
    writer.write(numbers(range(10)))
    writer.abort()
    writer.close()
    assert glob.glob(f"{tmp_path}/.penstock/*/*/*") == []


def test_parquet_parts_cut_within_a_batch_have_large_row_groups(tmp_path, sink_query, numbers, visible):
    """The size of rows that are not encoded yet is estimated: files are not cut far below the target for it."""
    query = sink_query(tmp_path, SCHEMA, maxPartSize=100_000, bucketAssigner="basePath", tasks=1)
    query.run([numbers(range(start, start + 1000), 60) for start in range(0, 100_000, 1000)])
    sizes = [os.path.getsize(path) for path in visible(tmp_path)]
    assert len(sizes) >= 2 and all(100_000 <= size < 130_000 for size in sizes)
    assert all(pq.ParquetFile(path).metadata.num_row_groups <= 12 for path in visible(tmp_path))
    query.finish()
    assert read_ids(visible(tmp_path)) == list(range(100_000))


def test_rows_not_yet_encoded_are_bounded_over_all_buckets(tmp_path, sink_query, numbers, monkeypatch):
    from penstock_filesystem.sink import _writer

    monkeypatch.setattr(_writer, "BUFFER_BYTES", 20_000)
    query = sink_query(tmp_path, SCHEMA, partitionColumns="id", tasks=1)
    writer = query.task_sink().create_writer(query.context())
    for _ in range(50):
        writer.write(numbers(range(10), 100))
        assert sum(part.encoder.buffered_bytes for part in writer._open.values()) <= 20_000
    query.commit(query.decide([writer.prepare_commit()]))
    query.finish()
    assert ds.dataset(str(tmp_path), format="parquet").count_rows() == 500


def test_two_processes_carry_out_one_decision(tmp_path, sink_query, numbers, visible):
    """Between one's look and its rename the other is done: that is published, not lost."""
    query = sink_query(tmp_path, SCHEMA, rollOnCheckpoint=True, bucketAssigner="basePath")
    stored = query.decide([query.write([numbers(range(5))])])
    parts = [query.sink.committable_serializer.unpack(one) for one in stored]
    slow = query.committer()
    assert slow.look(parts) == [Found.OPEN]
    assert query.commit(stored) == [COMMITTED]
    assert slow.publish(parts) == [Found.COMMITTED]
    assert read_ids(visible(tmp_path)) == list(range(5))


def test_clean_up_beside_a_running_query(tmp_path, sink_query, numbers, visible):
    """Directories come and go under writers and other clean-ups; none of them fails for it."""
    query = sink_query(tmp_path, SCHEMA, format="json", bucketAssigner="basePath", tasks=1)
    running, cleaned = True, []

    def clean():
        while running:
            cleaned.append(query.committer().clear(Kept(base=0, generation=0)))

    with ThreadPoolExecutor(2) as pool:
        cleaners = [pool.submit(clean) for _ in range(2)]
        try:
            for number in range(40):
                query.run([numbers([number])])
                query.finish()
        finally:
            running = False
        for cleaner in cleaners:
            cleaner.result()
    assert read_ids(visible(tmp_path)) == list(range(40))
    assert set(cleaned) == {0}


def test_metrics(tmp_path, sink_query, numbers):
    query = sink_query(tmp_path, SCHEMA, bucketAssigner="basePath")
    query.run([numbers(range(10))], [numbers(range(5))])
    query.finish()
    counts = query.metrics.take()
    assert counts.pop("bytes_written") > 0
    assert counts == {"rows_written": 15, "parts_published": 1, "chunks_merged": 2}
