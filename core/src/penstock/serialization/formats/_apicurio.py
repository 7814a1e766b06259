"""Apicurio Registry, by its own interface (``…/apis/registry/v3``)."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from penstock.errors import BadConfigurationError, RetriableError
from penstock.options import OptionValues
from penstock.serialization._malformed import MALFORMED, shortened
from penstock.serialization.formats._confluent import checked_address
from penstock.serialization.formats._schemas import Reference, SchemaClient, SchemaKey, SchemaLanguage, StoredSchema

__all__ = ["ApicurioClient"]

_FIRST_PAUSE_SECONDS = 0.1
_LATEST = "versions/branch=latest"


class ApicurioClient(SchemaClient):
    """See :class:`SchemaClient`. Keys are content ids or global ids, as ``schema.registry.id`` says."""

    def __init__(self, options: OptionValues) -> None:
        if options["schema.registry.url"] is None:
            raise BadConfigurationError("option 'schema.registry.url' is needed: …/apis/registry/v3 of the registry")
        self._url = checked_address(options["schema.registry.url"]).rstrip("/")
        if "," in self._url or not self._url.startswith(("http://", "https://")):
            raise BadConfigurationError(f"option 'schema.registry.url': {self._url!r} is not one http or https address")
        self._group = options["schema.registry.group"]
        self._id = options["schema.registry.id"]
        self._user = options["basic.auth.user.info"]
        self._tls = {name: options[f"ssl.{name}"] for name in ("ca.location", "certificate.location", "key.location")}
        self._password = options["ssl.key.password"]
        self._seconds = options["request.timeout"] / 1000
        self._retries = options["max.retries"]

    def __repr__(self) -> str:
        return f"ApicurioClient({self._url})"

    @property
    def address(self) -> str:
        return f"the schema registry at {self._url}"

    def get(self, key: SchemaKey, language: SchemaLanguage[Any]) -> StoredSchema | None:
        what = f"schema {key}"
        with self._of_another_shape(what):
            found = self._json(what, "GET", f"search/versions?{urlencode({self._id: key})}")
            if not found or not found["versions"]:
                return None
            return self._stored(what, found["versions"][0]["artifactType"], f"ids/{self._id}s/{key}")

    def latest(self, subject: str, language: SchemaLanguage[Any]) -> tuple[SchemaKey, StoredSchema] | None:
        what, path = f"subject '{subject}'", f"{self._artifact(self._group, subject)}/{_LATEST}"
        with self._of_another_shape(what):
            found = self._json(what, "GET", path)
            if found is None:
                return None
            stored = self._stored(what, found["artifactType"], f"ids/globalIds/{int(found['globalId'])}")
            return None if stored is None else (int(found[self._id]), stored)

    def identify(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference], *, register: bool
    ) -> SchemaKey | None:
        what = f"subject '{subject}'"
        own = {"groupId": self._group, "artifactId": subject, "artifactType": language.name}
        content = {"content": text, "contentType": "application/json"}
        body = {"artifactId": subject, "artifactType": language.name, "firstVersion": {"content": content}}
        path = f"groups/{quote(self._group, safe='')}/artifacts?ifExists=FIND_OR_CREATE_VERSION"
        with self._of_another_shape(what):
            if register:
                found = self._json(what, "POST", path, json.dumps(body).encode())
                return None if found is None else int(found["version"][self._id])
            found = self._json(what, "POST", f"search/versions?{urlencode(own)}", text.encode())
            return int(found["versions"][0][self._id]) if found and found["versions"] else None

    @contextmanager
    def _of_another_shape(self, what: str) -> Iterator[None]:
        """Turns errors of an answer that is not what the interface says into BadConfigurationError."""
        try:
            yield
        except MALFORMED as error:
            reason = shortened(f"{type(error).__name__}: {error}")
            raise BadConfigurationError(
                f"{self.address} does not answer as one about {what}: is it …/apis/registry/v3? ({reason})"
            ) from None

    def _artifact(self, group: str | None, name: str) -> str:
        return f"groups/{quote(group or 'default', safe='')}/artifacts/{quote(name, safe='')}"

    def _stored(self, what: str, language: str, path: str) -> StoredSchema | None:
        text = self._ask(what, "GET", path)
        if text is None:
            return None
        found: dict[str, str] = {}
        self._follow(what, path, found, ())
        return StoredSchema(language, text.decode(), tuple(found.items()))

    def _follow(self, what: str, path: str, found: dict[str, str], within: tuple[str, ...]) -> None:
        """Puts the texts of what the schema at ``path`` refers to into ``found``, each after what it refers to."""
        for one in self._json(what, "GET", f"{path}/references") or ():
            if one["name"] in found or one["name"] in within:
                continue
            version = f"{self._artifact(one.get('groupId'), one['artifactId'])}/versions/{quote(one['version'])}"
            text = self._ask(what, "GET", f"{version}/content")
            if text is None:
                raise BadConfigurationError(
                    f"{what} refers to version {one['version']} of '{one['artifactId']}', which is not there"
                )
            self._follow(what, version, found, (*within, one["name"]))
            found[one["name"]] = text.decode()

    def _json(self, what: str, method: str, path: str, body: bytes | None = None) -> Any:
        answer = self._ask(what, method, path, body)
        return None if answer is None else json.loads(answer)

    def _ask(self, what: str, method: str, path: str, body: bytes | None = None) -> bytes | None:
        """Returns the answer's body, ``None`` for "not found"."""
        request = Request(f"{self._url}/{path}", body, {"Content-Type": "application/json"}, method=method)  # noqa: S310
        if self._user is not None:
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(self._user.encode()).decode()}")
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                with urlopen(request, timeout=self._seconds, context=self._context()) as answer:  # noqa: S310
                    return bytes(answer.read())
            except HTTPError as error:
                if error.code == 404 and b"NotFoundException" in error.read():
                    return None
                if error.code < 500 and error.code != 429:
                    raise self._refusal(what, error.code) from None
                problem: Exception = error
            except (OSError, URLError) as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise BadConfigurationError(
                        f"{self.address} is not trusted: {error}; set 'ssl.ca.location'"
                    ) from None
                problem = error
        reason = shortened(f"{type(problem).__name__}: {problem}")
        raise RetriableError(f"{self.address} can't be asked for {what}: {reason}") from problem

    def _refusal(self, what: str, status: int) -> BadConfigurationError:
        if status == 404:
            return BadConfigurationError(
                f"{self.address} does not answer as one about {what}: is it …/apis/registry/v3?"
            )
        if status in (401, 403):
            return BadConfigurationError(
                f"{self.address} refuses {what} ({status}): check 'basic.auth.user.info' and what the user may do"
            )
        return BadConfigurationError(f"{self.address} does not accept the schema for {what} ({status})")

    def _context(self) -> ssl.SSLContext | None:
        if not self._url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=self._tls["ca.location"])
            if self._tls["certificate.location"] is not None:
                own = self._tls["certificate.location"], self._tls["key.location"], self._password
                context.load_cert_chain(*own)
        except OSError as error:
            raise BadConfigurationError(f"the settings of the schema registry are wrong: {error}") from None
        return context
