"""The schema registry of AWS Glue, asked by boto3."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.errors import BadConfigurationError, RetriableError
from penstock.options import OptionValues
from penstock.serialization.formats._schemas import Reference, SchemaClient, SchemaKey, SchemaLanguage, StoredSchema

__all__ = ["GlueClient"]

_MISSING = ("EntityNotFoundException",)
_REFUSED = ("AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException")
_WRONG = ("InvalidInputException", "ValidationException", "AlreadyExistsException")
_PAUSE_SECONDS = 0.2


class GlueClient(SchemaClient):
    """See :class:`SchemaClient`. Keys are the ids of schemas' versions: UUIDs.

    Region and credentials come from where boto3 looks for them, so none is stored.
    """

    def __init__(self, options: OptionValues) -> None:
        self._endpoint = options["schema.registry.url"]
        self._region = options["schema.registry.region"]
        self._registry = options["schema.registry.name"] or "default-registry"
        self._seconds = options["request.timeout"] / 1000
        self._retries = options["max.retries"]
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def __repr__(self) -> str:
        return f"GlueClient({self.address})"

    @property
    def address(self) -> str:
        return f"AWS Glue's {self._registry}"

    def get(self, key: SchemaKey, language: SchemaLanguage[Any]) -> StoredSchema | None:
        found = self._ask(f"schema {key}", "get_schema_version", SchemaVersionId=key)
        return None if found is None else StoredSchema(found["DataFormat"], found["SchemaDefinition"])

    def latest(self, subject: str, language: SchemaLanguage[Any]) -> tuple[SchemaKey, StoredSchema] | None:
        found = self._ask(
            f"schema '{subject}'",
            "get_schema_version",
            SchemaId=self._id(subject),
            SchemaVersionNumber={"LatestVersion": True},
        )
        if found is None:
            return None
        return found["SchemaVersionId"], StoredSchema(found["DataFormat"], found["SchemaDefinition"])

    def identify(
        self, subject: str, language: SchemaLanguage[Any], text: str, references: Sequence[Reference], *, register: bool
    ) -> SchemaKey | None:
        what, own = f"schema '{subject}'", self._id(subject)
        found = self._ask(what, "get_schema_by_definition", SchemaId=own, SchemaDefinition=text)
        if found is not None and found["Status"] == "AVAILABLE":
            return found["SchemaVersionId"]
        if not register:
            return None
        found = self._ask(what, "register_schema_version", SchemaId=own, SchemaDefinition=text)
        if found is None:
            found = self._ask(
                what,
                "create_schema",
                RegistryId={"RegistryName": self._registry},
                SchemaName=subject,
                DataFormat=language.name,
                Compatibility="BACKWARD",
                SchemaDefinition=text,
            )
        if found is None:
            raise BadConfigurationError(f"there is no {self.address}: create it, or set 'schema.registry.name'")
        key, status = found["SchemaVersionId"], found.get("Status") or found["SchemaVersionStatus"]
        end = time.monotonic() + self._seconds
        while status == "PENDING" and time.monotonic() < end:  # while it is compared with the others
            time.sleep(_PAUSE_SECONDS)
            status = (self._ask(what, "get_schema_version", SchemaVersionId=key) or {}).get("Status", "PENDING")
        if status == "PENDING":
            raise RetriableError(f"{self.address} has not checked the new version of {what} yet")
        if status != "AVAILABLE":
            raise BadConfigurationError(
                f"{self.address} does not accept the schema for {what}: it is not compatible with the versions there"
            )
        return key

    def _id(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self._registry, "SchemaName": subject}

    def _ask(self, what: str, method: str, **arguments: Any) -> Any:
        """Returns the answer, ``None`` for "not found"."""
        with self._translated(what):
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, method)(**arguments)
        return None

    def _connect(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
        except ImportError as error:
            raise BadConfigurationError(
                f"AWS Glue's schema registry needs more packages ({error}): pip install 'penstock[glue]'"
            ) from None
        config = Config(
            connect_timeout=self._seconds,
            read_timeout=self._seconds,
            retries={"total_max_attempts": self._retries + 1, "mode": "standard"},
        )
        return boto3.client("glue", region_name=self._region, endpoint_url=self._endpoint, config=config)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Translates errors of boto3; "not found" ends the block."""
        try:
            import botocore.exceptions as errors
        except ImportError as error:
            raise BadConfigurationError(
                f"AWS Glue's schema registry needs more packages ({error}): pip install 'penstock[glue]'"
            ) from None
        try:
            yield
        except errors.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _MISSING:
                return
            if code in _REFUSED:
                raise BadConfigurationError(
                    f"{self.address} refuses {what} ({code}): check the role's rights"
                ) from None
            if code in _WRONG:
                raise BadConfigurationError(f"{self.address} does not accept {what}: {error}") from None
            raise RetriableError(f"{self.address} can't be asked for {what}: {error}") from error
        except errors.NoRegionError:
            raise BadConfigurationError(f"{self.address} has no region: set 'schema.registry.region'") from None
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.ProfileNotFound) as error:
            raise BadConfigurationError(
                f"{self.address} can't be asked without credentials ({error}): give the process a role, a profile, or "
                "AWS's variables"
            ) from None
        except errors.BotoCoreError as error:
            raise RetriableError(f"{self.address} can't be asked for {what}: {error}") from error
