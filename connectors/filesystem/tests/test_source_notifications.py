"""Files that S3 reports through a queue of SQS: which they are, and that nothing depends on a report."""

from __future__ import annotations

import json
import os
import time
import uuid
from types import SimpleNamespace

import boto3
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.spark._coordinator import Coordinator
from penstock_filesystem.source.discovery import FileDiscovery, ModifiedBetween, _notifications
from penstock_filesystem.source.discovery._globs import covers
from penstock_filesystem.source.discovery._notifications import objects_of

NAMES = st.sampled_from(["a", "b.csv", "day=1", "_x", ".h", "_k=1", "c._COPYING_", "[z]", "ab"])
FILES = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=8)
ROOTS = st.sampled_from(
    ["", "a", "a/b.csv", "*", "a*", "*/*", "{a,day=1}/*", r"\[z\]", "_x", "day=1/a", "a/*/b.csv", "_*", "missing"]
)


TIMES_US = st.none() | st.integers(0, 4).map(lambda seconds: seconds * 1_000_000)
MODIFIED = st.none() | st.builds(ModifiedBetween, TIMES_US, TIMES_US)


@given(FILES, ROOTS, st.booleans(), st.sampled_from([None, "*.csv", "a"]), MODIFIED)
def test_a_reported_file_is_looked_at_if_a_listing_shows_it(
    tmp_path_factory, files, root, recursive, name_glob, modified
):
    folder = tmp_path_factory.mktemp("tree")
    made = []
    for name in files:
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("1")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
        made.append(str(path))
        os.utime(path, (1, len(made)))
    store = SimpleNamespace(fs=pafs.LocalFileSystem(), is_away=lambda _: False, check_is_there=lambda _: None)

    def discovery():
        paths = [f"{folder}/{root}".rstrip("/")]
        return FileDiscovery(store, paths, recursive=recursive, name_glob=name_glob, modified=modified)

    listing, looking = discovery(), discovery()
    listing.list_files()
    looking.look_at([*made, f"{folder}/gone", str(folder)])
    assert looking.take() == listing.take()
    looking.look_at(made)
    assert looking.take() == []  # it is known


def test_a_path_above_a_root_is_not_below_it():
    assert not covers("bucket/in/x", "bucket/in", recursive=True)
    assert covers("bucket", "bucket/in", recursive=False)


def s3_event(key="in/a+b%C3%BC.csv", name="ObjectCreated:Put", bucket="b"):
    return {"eventName": name, "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 1}}}


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (
            {"Records": [s3_event(), s3_event("x", "s3:ObjectCreated:CompleteMultipartUpload")]},
            ["b/in/a bü.csv", "b/x"],
        ),
        ({"Records": [s3_event(name="ObjectRemoved:Delete"), s3_event("y")]}, ["b/y"]),
        ({"Type": "Notification", "Message": json.dumps({"Records": [s3_event("x")]})}, ["b/x"]),
        (
            {
                "source": "aws.s3",
                "detail-type": "Object Created",
                "detail": {"bucket": {"name": "b"}, "object": {"key": "a+b %20"}},
            },
            ["b/a+b %20"],
        ),
        ({"source": "aws.s3", "detail-type": "Object Deleted", "detail": {}}, []),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}, []),
        ({"hello": 1}, None),
        ({"Records": [{}]}, None),
        ({"Records": 1}, None),
        ({"Type": "Notification", "Message": "no JSON"}, None),
        ([], None),
        ("text", None),
    ],
)
def test_what_a_message_is_about(message, paths):
    assert objects_of(json.dumps(message)) == paths


def test_a_message_that_is_no_json():
    assert objects_of("order 4711") is None
    assert objects_of("[" * 100_000) is None


@pytest.fixture
def bucket(s3_server, s3_path, monkeypatch):
    """A bucket whose notifications come to a queue, and what a source needs for it."""
    monkeypatch.setattr(_notifications, "_WAIT_S", 1)
    _, name, client = s3_path
    sqs = boto3.client(
        "sqs",
        endpoint_url=s3_server.endpoint,
        aws_access_key_id=s3_server.key,
        aws_secret_access_key=s3_server.secret,
        region_name="us-east-1",
    )
    attributes = {"VisibilityTimeout": "1"}
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}", Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client.put_bucket_notification_configuration(
        Bucket=name,
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]},
    )
    options = {name.replace(".", "_"): text for name, text in s3_server.options().items()}
    options |= {"notificationQueue": url, "discoveryInterval": "10ms", "format": "text"}

    def left():
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(found["ApproximateNumberOfMessages"]) + int(found["ApproximateNumberOfMessagesNotVisible"])

    return SimpleNamespace(
        name=name,
        path=f"s3://{name}/in",
        url=url,
        options=options,
        left=left,
        put=lambda key: client.put_object(Bucket=name, Key=key, Body=b"1\n"),
        send=lambda body: sqs.send_message(QueueUrl=url, MessageBody=body),
        delete_queue=lambda: sqs.delete_queue(QueueUrl=url),
        report_nothing=lambda: client.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration={}),
    )


@pytest.fixture
def listings(bucket, monkeypatch):
    """One entry for each listing of the bucket. Threads of other tests may list other places."""
    made, list_all = [], FileDiscovery._list_all

    def counting(self, found):
        if any(root.startswith(f"{bucket.name}/") for root in self._roots):
            made.append(1)
        return list_all(self, found)

    monkeypatch.setattr(FileDiscovery, "_list_all", counting)
    return made


@pytest.fixture
def started(source_harness):
    """``started(path, **options)``: an enumerator that looks in the background; and what it hands out next."""
    coordinators = []

    def start(path, checkpoint=None, **options):
        coordinator = Coordinator(Metrics())
        coordinators.append(coordinator)
        enumerator = source_harness.source(path, **options).create_enumerator(coordinator, checkpoint)
        enumerator.start()

        def taken(count):
            found, deadline = [], time.monotonic() + 60
            while len(found) < count and time.monotonic() < deadline:
                coordinator.await_result(0.2)
                while (split := enumerator.handle_split_request()) is not None:
                    found.append(split.path.partition("/")[2])
            return found

        return SimpleNamespace(enumerator=enumerator, taken=taken)

    yield start
    for one in coordinators:
        one.close()


def await_empty(bucket):
    deadline = time.monotonic() + 60
    while bucket.left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert bucket.left() == 0


def test_new_files_come_from_the_queue(bucket, started, listings, caplog):
    bucket.put("in/first")
    run = started(bucket.path, **bucket.options)
    assert run.taken(1) == ["in/first"]
    keys = ["in/a b+c%20ü.csv", "in/x/y", *(f"in/{number:02}" for number in range(25))]
    for key in keys:
        bucket.put(key)
    for key in ("in/_tmp/z", "other/z", "in/.z"):
        bucket.put(key)
    for key in ("in/not there", "in//x", "in/dir/", "in/../in/first", ""):
        bucket.send(json.dumps({"Records": [s3_event(key, bucket=bucket.name)]}))
    assert sorted(run.taken(len(keys))) == sorted(keys)
    bucket.send(json.dumps({"Records": [s3_event("x")] * 2}))
    await_empty(bucket)
    assert len(listings) == 1 and "no notifications" not in caplog.text
    assert run.enumerator.describe_backlog()["tracked_files"] == len(keys) + 1


def test_notifications_that_come_twice_or_never(bucket, started, listings):
    """The run begins with what is there, and lists again at intervals."""
    for key in ("in/a", "in/b"):
        bucket.put(key)
    run = started(bucket.path, **bucket.options, listingInterval="2s")
    assert run.taken(2) == ["in/a", "in/b"]  # the queue has both as well
    state = run.enumerator.snapshot_state()
    bucket.put("in/c")
    await_empty(bucket)  # by a run that dies then
    again = started(bucket.path, state, **bucket.options)
    assert again.taken(1) == ["in/c"]
    bucket.report_nothing()
    bucket.put("in/d")
    assert run.taken(2) == ["in/c", "in/d"]
    assert len(listings) >= 3


def test_other_messages_stay_in_the_queue(bucket, started, caplog):
    bucket.send("order 4711")
    bucket.send("order 4712")
    bucket.put("in/a")
    run = started(bucket.path, **bucket.options)
    assert run.taken(1) == ["in/a"]
    deadline = time.monotonic() + 60
    while bucket.left() > 2 or "order" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert caplog.text.count("has messages that are no notifications of S3, and they stay in it: order 471") == 1


def test_a_run_over_what_is_there_now_lists_and_asks_no_queue(bucket, started, listings, caplog):
    caplog.set_level("INFO", "penstock.filesystem")
    bucket.put("in/a")
    run = started(bucket.path, **bucket.options)
    run.enumerator.prepare_for_available_now()
    assert run.taken(1) == ["in/a"] and run.enumerator.is_exhausted()
    assert "is not asked: this run reads what is there now, and lists it" in caplog.text


def test_after_its_last_listing_a_run_asks_no_queue(bucket, source_harness, listings):
    bucket.put("in/a")
    enumerator = source_harness.source(bucket.path, **bucket.options).create_enumerator(Coordinator(Metrics()), None)
    enumerator.prepare_for_available_now()
    before = bucket.left()
    enumerator._look_in_background()
    assert bucket.left() == before > 0 and len(listings) == 1


def test_a_queue_that_goes_away_is_replaced_by_listings(bucket, started, listings, caplog):
    bucket.put("in/a")
    run = started(bucket.path, **bucket.options)
    assert run.taken(1) == ["in/a"]
    bucket.delete_queue()
    bucket.put("in/b")
    assert run.taken(1) == ["in/b"]
    bucket.put("in/c")
    assert run.taken(1) == ["in/c"]
    assert len(listings) >= 3 and caplog.text.count("the files are listed until it answers") == 1


def test_a_queue_that_is_not_there(bucket, started):
    with pytest.raises(BadConfigurationError, match=r"option 'notificationQueue': queue http.*AWS.SimpleQueueService"):
        started(bucket.path, **bucket.options | {"notificationQueue": bucket.url + "x"})


def test_options_of_a_queue(source_harness, bucket, tmp_path):
    with pytest.raises(BadConfigurationError, match="notifications of S3: read paths of s3://"):
        source_harness.source(tmp_path, format="text", notificationQueue=bucket.url)
    with pytest.raises(BadConfigurationError, match="the address of a queue, as in https://sqs"):
        source_harness.source(bucket.path, **bucket.options | {"notificationQueue": "new-files"})
    with pytest.raises(BadConfigurationError, match="listingInterval"):
        source_harness.source(tmp_path, format="text", listingInterval="1h")


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/new", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/new", "cn-north-1"),
        ("https://eu-central-1.queue.amazonaws.com/123456789012/new", "eu-central-1"),
        ("https://vpce-0.sqs.us-east-2.vpce.amazonaws.com/123456789012/new", "us-east-2"),
        ("http://127.0.0.1:4566/123456789012/new", None),
    ],
)
def test_the_region_is_the_queues(url, region):
    asked = []
    storage = SimpleNamespace(client_of=lambda *given: asked.append(given) or SimpleNamespace())
    assert _notifications.NotificationQueue(storage, url)._client
    assert asked == [("sqs", url[: url.index("/1234")], region)]


@pytest.mark.spark
def test_a_stream_reads_what_the_queue_reports(spark, bucket, s3_server, tmp_path):
    penstock.register(spark)
    bucket.put("in/a")
    options = {**s3_server.options(), "notificationQueue": bucket.url, "discoveryInterval": "10ms"}
    rows = spark.readStream.format("penstock.filesystem").options(format="text", **options).load(bucket.path)
    query = rows.writeStream.format("memory").queryName("notified").trigger(processingTime="100 milliseconds").start()
    try:
        for count in (1, 2):
            deadline = time.monotonic() + 60
            while spark.table("notified").count() < count:
                assert query.isActive and time.monotonic() < deadline
                time.sleep(0.1)
            bucket.put("in/b")
    finally:
        query.stop()
