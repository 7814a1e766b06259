"""How a client on librdkafka logs in: tokens come from the same source as those of the other client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import PenstockError, RetriableError
from penstock_kafka.client._errors import NOT_AUTHENTICATED, Problem, is_refusal_by_tls
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.login import given_extensions, login_advice, refuse_delegation_token, token_source
from penstock_kafka.config import TOKEN_PROVIDER

__all__ = ["Login"]

#: What librdkafka also calls a failed login, though no credentials were looked at: it connects again. It logs in again
#: when it has a new token and when a session is about to end; brokers refuse that within a second of the last time, and
#: close the connection.
#: The last is said of requests that were in flight then; why the login failed is said before, to another callback.
_NOT_LOOKED_AT = (
    "Request not valid in current SASL state",
    "handshake failed: Local: ",
    "Local: Authentication failure",
)
_OF_TOKENS = ("sasl.oauthbearer.", "https.")


class Login:
    """The login of one client. Its callback is called by a thread of librdkafka's, and by the one that makes it."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        #: Why the last token was not available. Written by the callback, read by any thread.
        self._failure: PenstockError | None = None

    def arguments(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Returns ``settings`` as confluent-kafka takes them, with a callback for tokens.

        Gets a first token. Raises BadConfigurationError for a login that librdkafka does not know and for a provider
        that refuses, RetriableError for one that does not answer.
        """
        refuse_delegation_token(settings)
        kept = {name: text for name, text in settings.items() if name != "sasl.scram.tokenauth"}
        if not self._asks_for_tokens():
            return kept
        self._source = token_source(settings)
        self._source.current()
        self._extensions = given_extensions(settings)
        kept = {name: text for name, text in kept.items() if not name.startswith(_OF_TOKENS)}
        return {**kept, "oauth_cb": self._token}

    def _asks_for_tokens(self) -> bool:
        config = self._config
        is_bearer = config.get("sasl.mechanism", config.get("sasl.mechanisms", "")).upper() == "OAUTHBEARER"
        by_address = config.get("sasl.oauthbearer.method", "default").lower() == "oidc"
        return is_bearer and (by_address or TOKEN_PROVIDER in config)

    def _token(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        try:
            token = self._source.current()
        except PenstockError as error:
            self._failure = error
            raise
        self._failure = None
        return token.value, token.expires_at, token.principal, {**self._extensions, **token.extensions}

    def explained(self, problem: Problem) -> Problem:
        """Returns ``problem`` with where to look, if a login was refused; one that passes, if the provider said so."""
        if problem.code in ("_SSL", "_TRANSPORT") and is_refusal_by_tls(problem.text):
            problem = replace(problem, code="_AUTHENTICATION")
        if problem.code not in NOT_AUTHENTICATED:
            return problem
        if any(words in problem.text for words in _NOT_LOOKED_AT):
            return replace(problem, code="_TRANSPORT", retriable=True, fatal=False)
        failure = self._failure
        if isinstance(failure, RetriableError):
            return replace(problem, code="_TRANSPORT", text=str(failure), retriable=True, fatal=False)
        text = problem.text if failure is None else str(failure)
        return replace(problem, text=f"{text}; {login_advice(self._config)}")
