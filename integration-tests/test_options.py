"""What holds for the options of every connector that is installed."""

from __future__ import annotations

import pytest

from penstock._plugins import installed_connectors
from penstock.errors import BadConfigurationError

SIDES = [
    pytest.param(found.load(), side, id=f"{found.name}-{side}")
    for found in installed_connectors()
    for side in ("source", "sink")
    if getattr(found.load(), f"{side}_options") is not None
]


@pytest.mark.parametrize("address", ["https://anna:hunter2@host/x", "http://hunter2@host", "s3://key:hunter2@bucket/x"])
@pytest.mark.parametrize(("connector", "side"), SIDES)
def test_credentials_in_an_address_are_refused_wherever_they_would_be_stored(connector, side, address):
    declared = getattr(connector, f"{side}_options")
    for option in declared:
        name = option.name.replace("*", "schema.registry.url") if option.is_prefix else option.name
        if declared.is_secret(name):
            continue
        with pytest.raises(BadConfigurationError, match=f"option '{name}' holds credentials") as caught:
            declared.parse({name: address}, owner="it")
        assert "hunter2" not in str(caught.value)
