"""The file sink under schedules by chance, on models of a disk and of S3."""

from __future__ import annotations

import logging
import random

import pytest

from penstock.testing.simulation import search
from suite.file_model import DiskTarget, S3Target


@pytest.mark.parametrize("target", [DiskTarget, S3Target])
@pytest.mark.parametrize(
    "schedules", [200, pytest.param(10_000, marks=pytest.mark.exhaustive("as many as two minutes have room for"))]
)
def test_schedules_by_chance(target, schedules):
    logging.disable(logging.CRITICAL)
    try:
        first = random.randrange(1 << 40)
        report = search(range(first, first + schedules), target)
    finally:
        logging.disable(logging.NOTSET)
    assert not report.failures, str(report.failures[0])
    assert report.schedules == schedules and report.ends["killed inside"] and report.ends["times out"], report
