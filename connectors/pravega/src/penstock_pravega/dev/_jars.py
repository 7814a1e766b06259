"""The published jars that a standalone Pravega runs on."""

from __future__ import annotations

from penstock.dev import JarSet

__all__ = ["NEWEST", "pravega_jars"]

NEWEST = "0.13.0"


def pravega_jars(version: str) -> JarSet:
    """Returns the jars without the clients of stores that a server in memory never asks: most of the megabytes."""
    return JarSet(
        f"pravega-{version}",
        # The server's own generated classes want this release of protobuf.
        (f"io.pravega:pravega-standalone:{version}", "com.google.protobuf:protobuf-java:3.20.1"),
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
