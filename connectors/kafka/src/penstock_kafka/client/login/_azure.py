"""Tokens of Microsoft Entra: managed and workload identities, service principals, by Microsoft's library."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import BadConfigurationError, RetriableError
from penstock.tokens import Token, TokenProvider
from penstock_kafka.client.login._aws import refuse_unknown

__all__ = ["AzureTokens"]

_INSTALL = "pip install 'penstock-kafka[azure]'"
_KNOWN = ("scope", "client_id", "tenant_id")


class AzureTokens(TokenProvider):
    """Asks as ``DefaultAzureCredential`` does: by the environment, a workload identity, a managed identity.

    ``settings``: ``scope`` (whom the tokens are for; the name of an Event Hubs namespace says it), ``client_id`` (of a
    managed or workload identity) and ``tenant_id``.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        try:
            from azure.identity import DefaultAzureCredential
        except ImportError:
            raise BadConfigurationError(f"Azure's tokens need azure-identity: {_INSTALL}") from None
        refuse_unknown(settings, _KNOWN)
        if "scope" not in settings:
            raise BadConfigurationError(
                "Azure's tokens need a scope: write kafka.sasl.oauthbearer.config as scope=api://…/.default"
            )
        self._scope = settings["scope"]
        client, tenant = settings.get("client_id"), settings.get("tenant_id")
        chosen = {"managed_identity_client_id": client, "workload_identity_client_id": client}
        chosen["workload_identity_tenant_id"] = tenant
        self._credential = DefaultAzureCredential(**{name: text for name, text in chosen.items() if text})

    def token(self) -> Token:
        """Asks for a token."""
        from azure.core.exceptions import AzureError, ServiceRequestError, ServiceResponseError

        try:
            found = self._credential.get_token(self._scope)
        except (ServiceRequestError, ServiceResponseError) as error:
            raise RetriableError(f"Microsoft Entra does not answer: {_first_line(error)}") from None
        except (AzureError, ValueError) as error:
            raise BadConfigurationError(
                f"Microsoft Entra gives no token for {self._scope}: {_first_line(error)}: look at "
                "kafka.sasl.oauthbearer.config, or at the identity of this machine (AZURE_CLIENT_ID, AZURE_TENANT_ID)"
            ) from None
        return Token(found.token, float(found.expires_on))


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
