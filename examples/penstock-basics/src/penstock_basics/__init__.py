"""The simplest sources and sinks on Penstock."""
