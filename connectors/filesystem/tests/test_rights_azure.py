"""Each use with exactly the rights that docs/production/rights.md lists, and without each of them."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from penstock.errors import RetriableError
from penstock.storage import open_storage
from suite.azure import ACCOUNT

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
#: What a use needs, in the words of SAS tokens.
RIGHTS = {
    "read": ("read", "list"),
    "read and delete": ("read", "list", "delete"),
    "read and archive": ("read", "list", "delete", "write"),
    "write": ("read", "list", "write", "delete"),
    "checkpoint": ("read", "list", "write", "delete"),
}


@pytest.fixture
def uses(azure_server, sink_query, source_harness, numbers):
    return Uses(azure_server, sink_query, source_harness, numbers)


class Uses:
    def __init__(self, server, sink_query, source_harness, numbers):
        self.server, self.sink_query, self.harness, self.numbers = server, sink_query, source_harness, numbers

    def run(self, use, rights):
        """Raises if a right is missing. A container of its own, made by someone else."""
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        sas = generate_account_sas(
            ACCOUNT,
            self.server.key,
            ResourceTypes(service=False, container=True, object=True),
            AccountSasPermissions(**dict.fromkeys(rights, True)),
            until,
        )
        container = self.server.new_container()
        options = {"azure.endpoint": self.server.endpoint, "azure.sas": sas}
        getattr(self, use.replace(" ", "_"))(container, options)

    def read(self, container, options, **more):
        self.server.storage().put(f"{container}/in/x", b"a\n")
        storage, path = open_storage(f"{self.server.url(container)}/in", options)
        given = {name.replace(".", "_", 1): text for name, text in options.items()}
        rows = self.harness.rows(self.server.url(container) + "/in", [("value", pa.string())], format="text", **given)
        assert rows == [("a",)]
        return storage, path

    def read_and_delete(self, container, options):
        storage, path = self.read(container, options)
        storage.delete([f"{path}/x"])

    def read_and_archive(self, container, options):
        storage, path = self.read(container, options)
        storage.move_over(f"{path}/x", f"{container}/archive/x")

    def write(self, container, options):
        url = f"{self.server.url(container)}/out"
        more = {"tasks": 1, "format": "csv", "maxPartSize": 2000, "maxOpenChunks": 2, "bucketAssigner": "basePath"}
        query = self.sink_query(url, SCHEMA, **more, **options)
        for number in range(4):
            query.run([self.numbers(range(number * 20, number * 20 + 20), 40)])
        query.write([self.numbers(range(1000), 40)])  # an attempt that never reports
        query.batch += 1
        assert query.clean_up()
        query.finish()
        stored = query.decide([query.write([self.numbers(range(1000), 40)])])
        query.committer().seal([query.sink.committable_serializer.unpack(one) for one in stored])

    def checkpoint(self, container, options):
        storage, path = open_storage(f"{self.server.url(container)}/ck", options)
        assert storage.create(f"{path}/0", b"v1") and not storage.create(f"{path}/0", b"v1")
        storage.put(f"{path}/0", b"v1")
        assert storage.list_names(path) == ["0"] and storage.read(f"{path}/0") == b"v1"
        storage.delete([f"{path}/0"])


@pytest.mark.parametrize("use", RIGHTS)
def test_with_exactly_these_rights(uses, use):
    uses.run(use, RIGHTS[use])


@pytest.mark.parametrize(("use", "right"), [(use, right) for use, rights in RIGHTS.items() for right in rights])
def test_without_one_of_them(uses, use, right):
    with pytest.raises((PermissionError, RetriableError), match=r"the store refuses it \(Authorization"):
        uses.run(use, [one for one in RIGHTS[use] if one != right])
