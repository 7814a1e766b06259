"""How requests for Azure and for Google's store travel."""

from __future__ import annotations

from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from penstock.storage._contract import REQUESTS_AT_ONCE
from penstock.storage._whole_heads import careful_pools

__all__ = ["make_careful"]

SessionT = TypeVar("SessionT", bound=requests.Session)


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **more: Any) -> None:
        super().init_poolmanager(*given, **more)
        self.poolmanager.pool_classes_by_scheme = careful_pools(HTTPConnectionPool, HTTPSConnectionPool)


def make_careful(session: SessionT) -> SessionT:
    """Returns the session, which makes each request once now, and raises requests' ConnectionError for a head without
    end.
    """
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(max_retries=0, pool_maxsize=REQUESTS_AT_ONCE))
    return session
