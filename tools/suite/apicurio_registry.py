"""A stand-in for Apicurio Registry: the part of its interface (v3) that is used, with the answers of release 3.3.3.

The server itself needs Java 21, which Spark does not.
"""

from __future__ import annotations

import json
from typing import Any

from suite.http_registry import HttpRegistry

__all__ = ["Apicurio"]


class Apicurio(HttpRegistry):
    """Artifacts and versions in memory. Content ids begin at 1, global ids at 101."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: list[str] = []
        self.versions: list[dict[str, Any]] = []

    def register(self, group: str, name: str, type_: str, schema: Any, references: Any = ()) -> dict[str, Any]:
        """Returns a version of an artifact with that schema, which is there afterwards."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text not in self.contents:
            self.contents.append(text)
        own = [one for one in self.versions if (one["groupId"], one["artifactId"]) == (group, name)]
        content = self.contents.index(text) + 1
        found = next((one for one in own if one["contentId"] == content), None)
        if found is None:
            found = {"groupId": group, "artifactId": name, "artifactType": type_, "contentId": content}
            found |= {"version": str(len(own) + 1), "globalId": 101 + len(self.versions)}
            self.versions.append({**found, "references": list(references)})
        return found

    def answer(self, method: str, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Returns status and body for a request."""
        if path == ["search", "versions"]:
            given = dict(query)
            found = [one for one in self.versions if all(str(one[key]) == text for key, text in given.items())]
            if method == "POST":
                found = [one for one in found if json.loads(self.contents[one["contentId"] - 1]) == body]
            return 200, {"count": len(found), "versions": found}
        if method == "POST":
            content = body["firstVersion"]["content"]
            version = self.register(path[1], body["artifactId"], body["artifactType"], content["content"])
            return 200, {"version": version}
        if path[0] == "ids":
            key = path[1].removesuffix("s")
            found = [one for one in self.versions if str(one[key]) == path[2]]
            rest = path[3:]
        else:
            found = [one for one in self.versions if [one["groupId"], one["artifactId"]] == [path[1], path[3]]]
            found = found[-1:] if path[5] == "branch=latest" else [one for one in found if one["version"] == path[5]]
            rest = path[6:] or ["version"]
        if not found:
            return 404, {"status": 404, "name": "VersionNotFoundException"}
        if rest == ["references"]:
            return 200, found[0]["references"]
        return 200, found[0] if rest == ["version"] else self.contents[found[0]["contentId"] - 1].encode()
