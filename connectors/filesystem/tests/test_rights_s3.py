"""A store that checks rights (moto's): each use with exactly those that docs/production/rights.md lists."""

from __future__ import annotations

import json
import os
import urllib.request
import uuid

import boto3
import pyarrow as pa
import pytest

from penstock.checkpoint import SparkLog
from penstock.errors import PenstockError
from penstock.storage import open_storage
from suite.s3 import S3Server, started_s3_server

BUCKET = "bucket"
VALUE = pa.schema([("value", pa.string())])
ROWS = pa.schema([("id", pa.int64()), ("note", pa.string())])
#: Of the bucket; the other actions are of objects.
OF_BUCKET = {"s3:ListBucket", "s3:ListBucketMultipartUploads"}
RIGHTS = {
    "reading": ["s3:ListBucket", "s3:GetObject"],
    "deleting what was read": ["s3:ListBucket", "s3:GetObject", "s3:DeleteObject"],
    "archiving what was read": ["s3:ListBucket", "s3:GetObject", "s3:DeleteObject", "s3:PutObject"],
    "writing": [
        *("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
        *("s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads"),
    ],
    "a checkpoint": ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
}


def statement(actions, resource):
    return {"Effect": "Allow", "Action": sorted(actions), "Resource": resource}


@pytest.fixture(scope="module")
def strict():
    """The server, and the options of a user for each use and each right that the user lacks (``None``: none)."""
    with started_s3_server({**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1000000"}) as server:
        iam = boto3.client("iam", endpoint_url=server.endpoint, aws_access_key_id="testing",
                           aws_secret_access_key="testing", region_name="us-east-1")  # fmt: skip
        server.client.create_bucket(Bucket=BUCKET)

        def user(actions):
            name = uuid.uuid4().hex
            of_objects = actions - OF_BUCKET
            statements = [statement(of_objects, f"arn:aws:s3:::{BUCKET}/*")] if of_objects else []
            # Where Amazon's store asks of each object, moto asks whether the bucket may be deleted from; and it has a
            # right of its own for what Amazon's includes in ListBucket.
            of_bucket = actions & {*OF_BUCKET, "s3:DeleteObject"}
            if "s3:ListBucket" in actions:
                of_bucket.add("s3:HeadBucket")
            if of_bucket:
                statements.append(statement(of_bucket, f"arn:aws:s3:::{BUCKET}"))
            policy = {"Version": "2012-10-17", "Statement": statements}
            iam.create_user(UserName=name)
            iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
            key = iam.create_access_key(UserName=name)["AccessKey"]
            return {**server.options(), "s3.key": key["AccessKeyId"], "s3.secret": key["SecretAccessKey"]}

        users = {
            (use, without): user(set(actions) - {without})
            for use, actions in RIGHTS.items()
            for without in (None, *actions)
        }
        every = user({"s3:PutObject", "s3:GetObject", "s3:ListBucket"})
        # From now on, what is asked for without a right is refused.
        request = urllib.request.Request(
            f"{server.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}, method="POST"
        )
        urllib.request.urlopen(request).close()
        yield S3Server(server.endpoint, every["s3.key"], every["s3.secret"]), users


class Use:
    def __init__(self, strict, source_harness, sink_query, numbers):
        self.server, self.users = strict
        self.source_harness, self.sink_query, self.numbers = source_harness, sink_query, numbers

    def do(self, name, without=None):
        """Raises what the user is told, or AssertionError if something was not done."""
        options, folder = self.users[name, without], uuid.uuid4().hex
        if name == "writing":
            self.write(options, folder)
        elif name == "a checkpoint":
            self.keep_checkpoint(options, folder)
        else:
            self.read(options, folder, name)

    def read(self, options, folder, name):
        self.server.client.put_object(Bucket=BUCKET, Key=f"{folder}/in/a.txt", Body=b"a\nb\n")
        given = {name.replace(".", "_"): text for name, text in options.items()}
        if name != "reading":
            given["cleanSource"] = name.partition("ing")[0] + "e"
        if "archiv" in name:
            given |= {"sourceArchiveDir": f"s3://{BUCKET}/{folder}/old"}
        source = self.source_harness.source(f"s3://{BUCKET}/{folder}/in", format="text", **given)
        splits = self.source_harness.splits(source)
        assert len(self.source_harness.read_splits(source, splits, VALUE)) == 2
        if name != "reading":
            context = self.source_harness.context()
            enumerator = source.create_enumerator(context, None)
            enumerator.notify_checkpoint_complete(splits)
            enumerator.close()
            assert context.metrics.take().get("cleaned_files") == 1

    def write(self, options, folder):
        query = self.sink_query(
            f"s3://{BUCKET}/{folder}",
            ROWS,
            bucketAssigner="basePath",
            tasks=1,
            format="csv",
            maxPartSize=6000,
            **options,
        )
        for number in range(4):
            query.run([self.numbers(range(number * 20, number * 20 + 20), 40)])
        query.write([self.numbers(range(1000), 40)])  # an attempt that never reports: its upload is open
        query.batch += 1
        query.clean_up()
        query.finish()
        listed = self.server.client.list_objects_v2(Bucket=BUCKET, Prefix=folder).get("Contents", [])
        assert [one["Key"] for one in listed if ".penstock" not in one["Key"]]

    def keep_checkpoint(self, options, folder):
        storage, path = open_storage(f"s3://{BUCKET}/{folder}", options)
        assert storage.create(f"{path}/offsets/0", b"v1") and not storage.create(f"{path}/offsets/0", b"v1")
        storage.put(f"{path}/offsets/1", b"v1")
        log = SparkLog(storage, path)
        assert log.last("offsets") == 1 and log.planned(None).offsets == b"v1" and storage.size(f"{path}/none") is None
        storage.delete([f"{path}/offsets/0", f"{path}/offsets/1"])


@pytest.fixture
def use(strict, source_harness, sink_query, numbers):
    return Use(strict, source_harness, sink_query, numbers)


@pytest.mark.parametrize("name", RIGHTS)
def test_each_use_with_exactly_the_rights_that_are_listed(use, name):
    use.do(name)


@pytest.mark.exhaustive("each right taken away; the test before is the witness that they suffice")
@pytest.mark.parametrize(("name", "without"), [(use, one) for use in RIGHTS for one in RIGHTS[use]])
def test_none_of_these_rights_is_listed_in_vain(use, name, without):
    with pytest.raises((PenstockError, OSError, AssertionError)):
        use.do(name, without)
