"""Who a client says it is, for both clients alike: TLS contexts, tokens and their providers, advice on a refusal."""

from penstock_kafka.client.login._advice import login_advice
from penstock_kafka.client.login._check import check_login, refuse_delegation_token
from penstock_kafka.client.login._source import given_extensions, token_source
from penstock_kafka.client.login._tls import ssl_context

__all__ = ["check_login", "given_extensions", "login_advice", "refuse_delegation_token", "ssl_context", "token_source"]
