"""A flow's checkpoint in Spark's Declarative Pipelines, and what a full refresh would write twice."""

from __future__ import annotations

import pytest

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock.retry import NO_RETRIES
from penstock.spark._pipeline_flows import FlowCheckpoint

NO_OPTIONS = OptionSet().parse({}, owner="sink penstock.kafka")


def checkpoint(folder, version, *, planned):
    """One in which a batch was planned, so that it may have been written, or none."""
    place = folder / "storage/_checkpoints/out/copy" / str(version)
    (place / "offsets").mkdir(parents=True)
    if planned:
        (place / "offsets/0").write_text("v1")
    return place


def check(place):
    flow = FlowCheckpoint.of(place.as_uri())
    assert flow is not None
    flow.check_refresh("sink penstock.kafka", NO_OPTIONS, NO_RETRIES)


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("file:///s/_checkpoints/out/copy/0", 0),
        ("s3://bucket/_checkpoints/spark_catalog/default/t/copy/12/", 12),
        ("/s/_checkpoints/out/copy/1", 1),
        ("/s/_checkpoints/copy/1", None),
        ("/s/_checkpoints/out/copy/01", None),
        ("/s/_checkpoints/out/copy/x", None),
        ("/s/checkpoints/out/copy/1", None),
        ("", None),
    ],
)
def test_which_checkpoints_are_of_a_flow(path, version):
    flow = FlowCheckpoint.of(path)
    assert (flow.version if flow else None) == version


def test_a_refresh_is_refused_until_the_old_checkpoint_is_gone(tmp_path):
    check(checkpoint(tmp_path, 0, planned=True))
    checkpoint(tmp_path, 1, planned=False)
    new = checkpoint(tmp_path, 2, planned=True)
    old = new.parent / "0"
    with pytest.raises(BadConfigurationError) as refused:
        check(new)
    assert str(refused.value) == (
        "sink penstock.kafka: a full refresh would write every row a second time, and Spark does not empty a sink. "
        f"Run penstock finish {old.as_uri()}, empty the target and delete {old.as_uri()}; "
        f"or delete {new.as_uri()} to go back to the state without the refresh"
    )
    (old / "offsets/0").unlink()
    check(new)
