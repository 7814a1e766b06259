"""ZooKeeper, for a broker that can't do without it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from penstock.dev import ServerFiles
from penstock_kafka.dev._properties import write_properties

__all__ = ["with_zookeeper", "zookeeper_settings"]

#: In ms. A session lasts between 2 and 20 ticks; a broker that was killed is known as long as its session lasts.
_TICK, _SESSION = 500, 6000
#: The shell becomes the broker, so that the process that was started is the broker's. ZooKeeper is its child, and a
#: second child ends ZooKeeper once the broker is gone, however it ended. After a crash, the next start waits for the
#: end of the old ZooKeeper and for the end of the old broker's session.
_SCRIPT = """
note=zookeeper.pid
wait=0
if [ -f "$note" ]; then
    while kill -0 "$(cat "$note")" 2>/dev/null; do sleep 0.1; done
    wait={wait}
fi
{zookeeper} </dev/null &
zookeeper=$!
echo "$zookeeper" >"$note"
broker=$$
(while kill -0 "$broker" 2>/dev/null; do sleep 0.2; done; kill -9 "$zookeeper") &
sleep "$wait"
exec {broker}
"""


def zookeeper_settings(port: int, zookeeper_port: int) -> dict[str, str]:
    """Returns a broker's settings."""
    return {
        "broker.id": "1",
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "zookeeper.session.timeout.ms": str(_SESSION),
        "zookeeper.connection.timeout.ms": "60000",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }


def with_zookeeper(place: ServerFiles, broker: Sequence[str], options: Sequence[str]) -> list[str]:
    """Returns a command whose process is the broker's, with ZooKeeper on the second port. ``options``: of its JVM."""
    settings = place.folder / "zookeeper.properties"
    write_properties(
        settings,
        {
            "dataDir": str(place.folder / "zookeeper"),
            "clientPort": str(place.ports[1]),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(_TICK),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        },
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    zookeeper = place.java(main, str(settings), options=options)
    script = _SCRIPT.format(
        zookeeper=shlex.join(zookeeper), broker=shlex.join(broker), wait=_SESSION / 1000 + 2 * _TICK / 1000
    )
    return ["/bin/sh", "-c", script]
