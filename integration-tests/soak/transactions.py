"""Watches the broker's transactions, with another client than the one that the connector writes with."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from soak.findings import Findings

#: Longer than any batch of this job, on a slow machine.
LONGEST_BATCH_SECONDS = 20.0
#: A batch has two tasks, in one or two processes, and each prepares another producer. Processes of a killed driver may
#: live for a moment beside those of the next one. Without reuse there would be more ids after a few kills.
MOST_IDS = 24


class TransactionWatch:
    """Counts the transactional ids with ``prefix``, and measures how long the oldest transaction has been open."""

    def __init__(self, brokers: str, findings: Findings, prefix: str = "penstock.") -> None:
        self._brokers = brokers
        self._prefix = prefix
        self._findings = findings
        self._admin: Any = None
        self._too_many = False
        self.oldest_seconds = self.longest_calm_seconds = 0.0
        self.ids = 0

    def look(self, calm_seconds: float) -> None:
        """Asks the broker, if it answers. ``calm_seconds`` is how long records have arrived since the last kill."""
        try:
            if self._admin is None:
                self._admin = KafkaAdminClient(bootstrap_servers=self._brokers)
            found = [one for some in self._admin.list_transactions().values() for one in some]
            listed = [one for one in found if one.transactional_id.startswith(self._prefix)]
            open_now = self._open([one.transactional_id for one in listed if one.state.value == "Ongoing"])
        except (KafkaError, OSError, AssertionError):
            self.close()
            return
        self.ids = max(self.ids, len({one.transactional_id for one in listed}))
        if self.ids > MOST_IDS and not self._too_many:
            self._too_many = True
            self._findings.add(f"{self.ids} transactional ids: they are not used again")
        self.oldest_seconds = max(open_now.values(), default=0.0)
        for transactional_id, seconds in open_now.items():
            self._judge(transactional_id, min(seconds, calm_seconds))

    def _open(self, ids: list[str]) -> dict[str, float]:
        now = time.time()
        described = {key: self._admin.describe_transactions([key])[key] for key in ids}
        return {
            key: now - one.transaction_start_time_ms / 1000
            for key, one in described.items()
            if one.state.value == "Ongoing"
        }

    def _judge(self, transactional_id: str, seconds: float) -> None:
        self.longest_calm_seconds = max(self.longest_calm_seconds, seconds)
        if seconds > LONGEST_BATCH_SECONDS:
            self._findings.add(f"'{transactional_id}' has been open for {seconds:.0f} s while nothing was killed")

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            try:
                admin.close()
            except (KafkaError, OSError):
                return
