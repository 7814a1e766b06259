"""How requests for Azure travel."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from penstock.storage._whole_heads import careful_pools

__all__ = ["careful_session"]


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **more: Any) -> None:
        super().init_poolmanager(*given, **more)
        self.poolmanager.pool_classes_by_scheme = careful_pools(HTTPConnectionPool, HTTPSConnectionPool)


def careful_session() -> requests.Session:
    """Returns a session that makes each request once, and raises requests' ConnectionError for a head without end."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(max_retries=0))
    return session
