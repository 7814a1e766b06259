"""SCRAM for kafka-python, with names that hold any character, and with delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

__all__ = ["DelegationToken"]


class DelegationToken(str):
    """The id of a delegation token, in the place of a user's name; the password is its HMAC."""

    __slots__ = ()


class _Client(ScramClient):  # type: ignore[misc]  # untyped
    def __init__(self, user: str, password: str, mechanism: str) -> None:
        # As RFC 5802 wants it, section 5.1; kafka-python sends the name as it is.
        super().__init__(user.replace("=", "=3D").replace(",", "=2C"), password, mechanism)
        self._extensions = b",tokenauth=true" if isinstance(user, DelegationToken) else b""

    def first_message(self) -> bytes:
        message: bytes = super().first_message() + self._extensions
        self.auth_message += self._extensions
        return message


class _Scram(SaslMechanismScram):  # type: ignore[misc]  # untyped
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        user, password = config["sasl_plain_username"], config["sasl_plain_password"]
        self._scram_client = _Client(user, password, config["sasl_mechanism"])

    def receive(self, auth_bytes: bytes) -> Any:
        try:
            return super().receive(auth_bytes)
        except (ValueError, LookupError) as error:
            raise SaslAuthenticationFailedError(f"not an answer of SCRAM: {error}") from error


for _name in ScramClient.MECHANISMS:
    register_sasl_mechanism(_name, _Scram, overwrite=True)
