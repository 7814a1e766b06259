"""A small schema registry with the part of Confluent's HTTP interface that is used."""

from __future__ import annotations

import json
from typing import Any

from suite.http_registry import HttpRegistry

__all__ = ["Registry"]


class Registry(HttpRegistry):
    """Subjects and schemas in memory. ``serialized`` has the texts of Protobuf schemas in that form, by their own."""

    def __init__(self) -> None:
        super().__init__()
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.serialized: dict[str, str] = {}

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Returns the id of a schema, which the subject has afterwards."""
        entry = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if entry not in self.schemas:
            self.schemas.append(entry)
        schema_id = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def answer(self, method: str, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Returns status and body for a request."""
        entry = {key: body[key] for key in ("schema", "references", "schemaType") if body.get(key)} if body else {}
        if entry.get("schemaType") == "AVRO":
            del entry["schemaType"]  # the one that is not named
        if path[0] == "schemas":
            known = 0 < int(path[2]) <= len(self.schemas)
            if not known:
                return 404, {"error_code": 40403, "message": "no id"}
            return 200, self.formed(self.schemas[int(path[2]) - 1], query)
        subject = path[1]
        if method == "POST" and path[-1] == "versions":
            return 200, {"id": self.register(subject, entry.pop("schema"), **entry)}
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": "no subject"}
        if method == "POST":
            found = [i for i in versions if self.schemas[i - 1] == entry]
            if not found:
                return 404, {"error_code": 40403, "message": "no schema"}
            return 200, self.described(subject, found[0])
        found_id = versions[-1] if path[-1] == "latest" else versions[int(path[-1]) - 1]
        return 200, self.formed(self.described(subject, found_id), query)

    def formed(self, entry: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
        """Returns a schema in the form that was asked for."""
        if query.get("format") == "serialized":
            return {**entry, "schema": self.serialized.get(entry["schema"], "not in that form")}
        return entry

    def described(self, subject: str, schema_id: int) -> dict[str, Any]:
        """Returns a version of a subject."""
        version = self.subjects[subject].index(schema_id) + 1
        return {"subject": subject, "id": schema_id, "version": version, **self.schemas[schema_id - 1]}
