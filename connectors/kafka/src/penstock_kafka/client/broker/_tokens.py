"""Tokens, handed to kafka-python when it authenticates or does so again."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.errors import PenstockError, RetriableError
from penstock.tokens import TokenSource

__all__ = ["CurrentToken"]


class CurrentToken(AbstractTokenProvider):  # type: ignore[misc]  # untyped
    """The token of a source, for kafka-python. Any thread. Its repr shows no token."""

    def __init__(self, source: TokenSource, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._source = source
        self._given = dict(extensions)

    def token(self) -> str:
        """Returns a token that is good for a while yet, which may take as long as the provider does.

        Raises kafka-python's errors: KafkaConnectionError for what may pass, else SaslAuthenticationFailedError.
        """
        try:
            return self._source.current().value
        except RetriableError as error:
            raise KafkaConnectionError(str(error)) from error
        except PenstockError as error:
            raise SaslAuthenticationFailedError(str(error)) from error

    def extensions(self) -> dict[str, str]:
        """Returns the SASL extensions that are sent with the token: those of the options, and the provider's own."""
        try:
            return {**self._given, **self._source.current().extensions}
        except PenstockError:  # which the token itself reports
            return dict(self._given)
