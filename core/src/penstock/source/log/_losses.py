"""What is done about records that are gone."""

from __future__ import annotations

from penstock.errors import DataLostError
from penstock.metrics import Metrics
from penstock.printable import get_logger

__all__ = ["LossPolicy"]

_log = get_logger("penstock.source")


class LossPolicy:
    """Either an error that ends the query, or a warning and two counters (``data_losses``, ``records_lost``)."""

    def __init__(self, *, fail: bool, metrics: Metrics) -> None:
        self._fail = fail
        self._metrics = metrics

    def report(self, what: str, records: int = 0) -> None:
        """Raises :class:`DataLostError`, or notes that ``records`` (0: not known how many) were lost and returns."""
        if self._fail:
            raise DataLostError(
                f"{what}. To continue with what is there, set failOnDataLoss=false; to keep this from happening, keep "
                "records longer than the query may be down"
            )
        self._metrics.add("data_losses")
        if records:
            self._metrics.add("records_lost", records)
        _log.warning("data lost: %s; continuing (failOnDataLoss=false)", what)
