"""Servers to develop and to test against: by an address, in a container, or from published jars.

A connector describes its server once (:class:`DevServer`). Then ``penstock dev up NAME`` starts one that outlives the
command (:func:`up`, :func:`down`, :func:`status`), and tests share one (:func:`open_server`) or start private ones
that they may break (:class:`LocalServer`). Not for production: one node, small memory, no security but that it listens
on 127.0.0.1 only.
"""

from penstock.dev._contracts import ContainerImage, DevServer, Progress, ServerFiles
from penstock.dev._jars import JarSet, fetch_jars
from penstock.dev._lifecycle import Found, Status, down, status, up
from penstock.dev._local import LocalServer
from penstock.dev._ports import free_ports
from penstock.dev._process import ProcessIdentity
from penstock.dev._state import Record
from penstock.dev._ways import Way, open_server, way_named

__all__ = [
    "ContainerImage",
    "DevServer",
    "Found",
    "JarSet",
    "LocalServer",
    "ServerFiles",
    "ProcessIdentity",
    "Progress",
    "Record",
    "Status",
    "Way",
    "down",
    "fetch_jars",
    "free_ports",
    "open_server",
    "status",
    "up",
    "way_named",
]
