"""The file sink under schedules by chance, on models of a disk and of stores."""

from __future__ import annotations

import logging

import pytest

from penstock.testing.simulation import _search
from penstock.testing.simulation._choices import PlayedChoices, SeededChoices
from suite.azure_model import AzureTarget, RepeatingAzureTarget
from suite.batch_world import check_writes, run_write, search_writes
from suite.file_model import DiskTarget, RepeatingS3Target, S3Target
from suite.gcs_model import GcsTarget, RepeatingGcsTarget
from suite.schedules import check_schedules, check_seed


@pytest.mark.parametrize(
    "target",
    [
        *(DiskTarget, S3Target, AzureTarget),
        pytest.param(GcsTarget, marks=pytest.mark.exhaustive("the next test has that store")),
    ],
)
@pytest.mark.parametrize(
    "schedules",
    [200, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance(target, schedules):
    check_schedules(target, schedules, "killed inside", "times out")


@pytest.mark.parametrize("target", [DiskTarget, S3Target])
@pytest.mark.parametrize(
    "schedules",
    [50, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_schedules_by_chance_of_a_batch_function(target, schedules):
    check_schedules(target, schedules, "killed after", in_batch=True)


@pytest.mark.parametrize("target", [DiskTarget, S3Target, AzureTarget, GcsTarget])
@pytest.mark.parametrize(
    "schedules",
    [150, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_batch_writes_by_chance(target, schedules):
    check_writes(target, schedules)


def test_a_batch_write_that_fails_is_shown_as_short_as_it_can_be(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(DiskTarget, "left", lambda self: ["something"])
    monkeypatch.setattr(_search, "_MOST_TRIES", 40)
    (failure,) = search_writes(range(1000), DiskTarget).failures
    assert "stays forever" in failure.violation
    whole = run_write(failure.seed, DiskTarget, SeededChoices(failure.seed))
    again = run_write(failure.seed, DiskTarget, PlayedChoices(failure.choices))
    assert again.trace == failure.trace and len(failure.choices) < len(whole.choices)


@pytest.mark.parametrize("target", [RepeatingS3Target, RepeatingAzureTarget, RepeatingGcsTarget])
@pytest.mark.parametrize(
    "schedules",
    [100, pytest.param(3_000, marks=pytest.mark.exhaustive("more of them; scripts/soak simulate tries a million"))],
)
def test_requests_that_the_client_sends_twice(target, schedules):
    check_schedules(target, schedules, "sent twice")


def test_a_clean_up_that_is_killed_leaves_no_upload_of_a_zombie():
    """The seed of the schedule that found this: the marker had gone before the last upload was looked for."""
    check_seed(S3Target, 425024360865)


def test_a_marker_that_was_revoked_is_not_written_again():
    """The seed of the schedule that found this: a request was repeated after its first try had come late."""
    check_seed(S3Target, 979337790144)


def test_an_upload_that_was_begun_twice_is_aborted_twice():
    """The seed of the schedule that found this: the first answer was lost, and the driver gave the second one up."""
    check_seed(S3Target, 123001640)


def test_an_upload_that_no_clean_up_finds_is_aborted_until_the_store_says_so():
    """The seed of the schedule that found this: a zombie's abort failed once, and its marker had gone."""
    check_seed(S3Target, 358091260466)
