"""Avro container files."""
