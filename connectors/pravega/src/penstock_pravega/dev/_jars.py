"""The published jars that a standalone Pravega runs on."""

from __future__ import annotations

from penstock.dev import JarSet

__all__ = ["PRAVEGA_JARS", "VERSION"]

VERSION = "0.13.0"

#: Without the clients of stores that a server in memory never asks, which are most of the megabytes. The server's own
#: generated classes want this release of protobuf.
PRAVEGA_JARS = JarSet(
    f"pravega-{VERSION}",
    (f"io.pravega:pravega-standalone:{VERSION}", "com.google.protobuf:protobuf-java:3.20.1"),
    excluded=(
        "org.slf4j:slf4j-reload4j",
        "org.slf4j:slf4j-log4j12",
        "org.apache.hadoop:*",
        "software.amazon.awssdk:*",
        "com.azure:*",
        "com.google.cloud:*",
        "com.emc.ecs:*",
    ),
)
