"""The same source on an S3 server."""

from __future__ import annotations

import gzip

import pyarrow as pa

VALUE = pa.schema([("value", pa.string()), ("_file_path", pa.string())])


def test_files_on_s3(s3_server, s3_path, source_harness):
    _, bucket, client = s3_path
    texts = {"in/a.txt": b"a\nb\n", "in/x/c.txt.gz": gzip.compress(b"c\n"), "in/_tmp/d.txt": b"d\n", "in/.e": b"e\n"}
    for key, data in texts.items():
        client.put_object(Bucket=bucket, Key=key, Body=data)
    options = {name.replace(".", "_"): text for name, text in s3_server.options().items()}
    source = source_harness.source(f"s3://{bucket}/in/", format="text", maxSplitBytes=1, **options)
    rows = sorted((row["value"], row["_file_path"]) for row in source_harness.read(source, VALUE).to_pylist())
    a, c = f"s3://{bucket}/in/a.txt", f"s3://{bucket}/in/x/c.txt.gz"
    assert rows == [("a", a), ("b", a), ("c", c)]
    globbed = source_harness.source(f"s3://{bucket}/in/*/c*", format="text", **options)
    assert [split.path for split in source_harness.splits(globbed)] == [f"{bucket}/in/x/c.txt.gz"]


def test_archiving_on_s3(s3_server, s3_path, source_harness):
    _, bucket, client = s3_path
    client.put_object(Bucket=bucket, Key="in/x/a.txt", Body=b"a\n")
    options = {name.replace(".", "_"): text for name, text in s3_server.options().items()}
    options |= {"cleanSource": "archive", "sourceArchiveDir": f"s3://{bucket}/old"}
    source = source_harness.source(f"s3://{bucket}/in", format="text", **options)
    splits = source_harness.splits(source)
    enumerator = source.create_enumerator(source_harness.context(), None)
    enumerator.notify_checkpoint_complete(splits)
    enumerator.close()
    keys = [item["Key"] for item in client.list_objects_v2(Bucket=bucket)["Contents"] if not item["Key"].endswith("/")]
    assert keys == ["old/x/a.txt"]
