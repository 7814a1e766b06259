"""What the broker knows of transactions. Asked with another client than the one that the connector uses to write."""

from __future__ import annotations

import time
from typing import Any

from findings import Findings
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

#: Longer than any batch of this job, on a slow machine.
LONGEST_BATCH_SECONDS = 20.0
#: Two tasks at a time, four in a batch, each process with those of two batches and one prepared.
MOST_IDS = 48


class TransactionWatch:
    """Looks now and then: how long the oldest transaction has been open, and how many ids there are."""

    def __init__(self, brokers: str, findings: Findings) -> None:
        self._brokers = brokers
        self._findings = findings
        self._admin: Any = None
        self._too_many = False
        self.oldest_seconds = self.longest_calm_seconds = 0.0
        self.ids = 0

    def look(self, calm_seconds: float) -> None:
        """``calm_seconds``: since when nothing was killed, and records come. A broker that is away is not asked."""
        try:
            if self._admin is None:
                self._admin = KafkaAdminClient(bootstrap_servers=self._brokers)
            listed = [one for some in self._admin.list_transactions().values() for one in some]
            open_now = self._open([one.transactional_id for one in listed if str(one.state).endswith("Ongoing")])
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
            if str(getattr(one.state, "value", one.state)).endswith("Ongoing")
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
