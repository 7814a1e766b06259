"""Where Pravega is and how one is let in: options first, then the environment, then defaults."""

from __future__ import annotations

import os

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionValues
from penstock_pravega.client import ControllerSettings, Credentials, KeycloakCredentials, check_name, stream_name

__all__ = ["CONNECTION_OPTIONS", "connection_settings", "default_scope", "full_stream_name"]

DEFAULT_CONTROLLER = "tcp://localhost:9090"

CONNECTION_OPTIONS = (
    Option(
        "controller",
        "The controller as tcp://host:port, or tls://host:port; several with commas. Unset: the environment's "
        f"PRAVEGA_CONTROLLER_URI, else {DEFAULT_CONTROLLER}",
        credentials=("credentials.username", "credentials.password"),
    ),
    Option("scope", "The scope of streams that name none. Unset: the environment's PRAVEGA_SCOPE"),
    Option(
        "credentials.username",
        "User, with credentials.password. Without credentials in the options those of the environment are taken: "
        "pravega_client_auth_method (Basic, Bearer) and pravega_client_auth_token, or KEYCLOAK_SERVICE_ACCOUNT_FILE, "
        "as Pravega's own clients do",
    ),
    Option("credentials.password", "Password of the user", secret=True),
    Option("credentials.token", "A bearer token, instead of user and password", secret=True),
    Option(
        "credentials.keycloak.file",
        "A keycloak.json, as Keycloak hands it out for a service account, instead of user and password: tokens are "
        "fetched and renewed. Read on the driver",
    ),
    Option(
        "tls.ca.location",
        "File of CA certificates (PEM) that servers are checked against. Unset: the environment's "
        "PRAVEGA_TLS_CA_LOCATION, else the system's",
    ),
    Option("tls.validateHost", "Whether the names in servers' certificates are checked as well", "bool", "true"),
    Option(
        "request.timeout",
        "How long one answer may take; it is asked for up to four times",
        "duration",
        "30s",
        minimum=1,
    ),
)


def connection_settings(values: OptionValues) -> ControllerSettings:
    """The settings of ``values`` and the environment. Raises BadConfigurationError."""
    settings = ControllerSettings(
        uri=values["controller"] or os.environ.get("PRAVEGA_CONTROLLER_URI") or DEFAULT_CONTROLLER,
        credentials=_credentials(values),
        ca_file=_ca_file(values),
        validate_host=values["tls.validateHost"],
        timeout_s=values["request.timeout"] / 1000,
    )
    over_https = isinstance(settings.credentials, KeycloakCredentials)
    if not settings.is_secure and not over_https and values["tls.ca.location"]:
        raise BadConfigurationError("option 'tls.ca.location' is for a controller that is written as tls://host:port")
    if not settings.addresses:
        raise BadConfigurationError("option 'controller' names no address")
    return settings


def _credentials(values: OptionValues) -> Credentials | KeycloakCredentials | None:
    user, password, token = (values[f"credentials.{part}"] for part in ("username", "password", "token"))
    keycloak = values["credentials.keycloak.file"]
    if (user is None) != (password is None):
        raise BadConfigurationError("options 'credentials.username' and 'credentials.password' belong together")
    given = {"username": user, "token": token, "keycloak.file": keycloak}
    names = [f"'credentials.{name}'" for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise BadConfigurationError(f"options {' and '.join(names)} are each instead of the others: leave one out")
    if token is not None:
        return Credentials("Bearer", token.strip().removeprefix("Bearer "))
    if user is not None:
        return Credentials.basic(user, password)
    if keycloak is not None:
        return _keycloak(keycloak, values)
    method, found = (os.environ.get(f"pravega_client_auth_{part}") for part in ("method", "token"))
    if method and found:
        return Credentials(method, found)
    file = os.environ.get("KEYCLOAK_SERVICE_ACCOUNT_FILE")
    return _keycloak(file, values) if file else None


def _keycloak(path: str, values: OptionValues) -> KeycloakCredentials:
    return KeycloakCredentials.from_file(path, _ca_file(values), values["request.timeout"] / 1000)


def _ca_file(values: OptionValues) -> str | None:
    return values["tls.ca.location"] or os.environ.get("PRAVEGA_TLS_CA_LOCATION")


def default_scope(values: OptionValues) -> str | None:
    """The scope of streams that name none."""
    scope: str | None = values["scope"] or os.environ.get("PRAVEGA_SCOPE")
    return None if scope is None else _checked("scope", scope.strip())


def full_stream_name(text: str, scope: str | None) -> str:
    """``scope/stream`` of a stream as users write it, with or without its scope."""
    first, slash, second = text.strip().partition("/")
    if slash:
        return stream_name(_checked("stream", first), _checked("stream", second))
    if scope is None:
        raise BadConfigurationError(
            f"option 'stream': '{first}' has no scope. Write scope/stream, set the option 'scope', or PRAVEGA_SCOPE in "
            "the environment"
        )
    return stream_name(scope, _checked("stream", first))


def _checked(option: str, name: str) -> str:
    try:
        return check_name(option, name)
    except ValueError as error:
        raise BadConfigurationError(f"option '{option}': {error}") from None
