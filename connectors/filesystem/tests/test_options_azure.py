"""Source and sink go where the options azure.* say, and ask as they say."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from penstock.errors import BadConfigurationError
from penstock_filesystem.options import SINK_OPTIONS
from suite.azure import ACCOUNT

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.fixture(params=["key", "sas"])
def credentials(request, azure_server):
    if request.param == "key":
        return {"azure.key": azure_server.key}
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    rights = AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True)
    everything = ResourceTypes(service=True, container=True, object=True)
    return {"azure.sas": generate_account_sas(ACCOUNT, azure_server.key, everything, rights, until)}


def test_a_sink_and_a_source(azure_server, credentials, sink_query, source_harness, numbers):
    container = azure_server.new_container()
    url = f"{azure_server.url(container)}/out"
    options = {"azure.endpoint": azure_server.endpoint, **credentials, "format": "json"}
    query = sink_query(url, SCHEMA, bucketAssigner="basePath", tasks=1, rollOnCheckpoint=True, **options)
    query.run([numbers(range(10))])
    given = {name.replace(".", "_", 1): text for name, text in options.items()}
    rows = source_harness.rows(url, [("id", pa.int64())], **given)
    assert sorted(rows) == [(number,) for number in range(10)]


def test_one_kind_of_credentials_at_a_time():
    given = {"path": "abfss://c@a.dfs.core.windows.net/", "azure.key": "a2V5", "azure.sas": "sig=x"}
    with pytest.raises(BadConfigurationError, match="azure"):
        SINK_OPTIONS.parse(given, owner="sink")
