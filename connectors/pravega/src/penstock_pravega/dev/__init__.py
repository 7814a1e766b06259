"""A Pravega server to develop and to test against, and a toolbox to look into one. Needs Java and a C compiler."""

from penstock_pravega.dev._server import PravegaDevServer, pravega_server
from penstock_pravega.dev._toolbox import PravegaToolbox, ReadEvent

__all__ = ["PravegaDevServer", "PravegaToolbox", "ReadEvent", "pravega_server"]
