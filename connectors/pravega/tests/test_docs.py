"""The code on the documentation's pages that needs Pravega."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from suite.pages import as_a_reader, blocks, in_the_session

pytestmark = pytest.mark.spark
BLOCKS = {block.name: block for block in blocks("pravega")}


def in_a_scope_of_its_own(block):
    return replace(block, code=block.code.replace("plant/", f"docs-{uuid.uuid4().hex}/"))


@pytest.mark.parametrize("name", BLOCKS)
def test_code_runs_and_prints_what_it_says(name, pravega_address, tmp_path, spark, monkeypatch):
    in_the_session(in_a_scope_of_its_own(BLOCKS[name]), tmp_path, monkeypatch.setenv, pravega_address)


@pytest.mark.exhaustive("a driver for each block; test_code_runs_and_prints_what_it_says runs them in one session")
@pytest.mark.parametrize("name", BLOCKS)
def test_code_runs_for_a_reader(name, pravega_address, tmp_path):
    as_a_reader(in_a_scope_of_its_own(BLOCKS[name]), tmp_path, {"PENSTOCK_PRAVEGA_ADDRESS": pravega_address})
