"""Where Pravega is and how one is let in: options first, then the environment, then defaults."""

from __future__ import annotations

import os

from penstock.errors import BadConfigurationError
from penstock.options import Option, OptionValues, common_option, connecting, when
from penstock_pravega.client import ControllerSettings, Credentials, KeycloakCredentials, check_name, stream_name

__all__ = ["CONNECTION_OPTIONS", "connection_settings", "default_scope", "full_stream_name"]

DEFAULT_CONTROLLER = "tcp://localhost:9090"

CONNECTION_OPTIONS = connecting(
    (
        Option(
            "controller",
            "The controller as tcp://host:port, or tls://host:port; several with commas. Unset: the environment's "
            f"PRAVEGA_CONTROLLER_URI, else {DEFAULT_CONTROLLER}",
            credentials=("user", "password"),
        ),
        Option("scope", "The scope of streams that name none. Unset: the environment's PRAVEGA_SCOPE"),
        common_option(
            "user",
            ". Without credentials in the options those of the environment are taken: pravega_client_auth_method "
            "(Basic, Bearer) and pravega_client_auth_token, or KEYCLOAK_SERVICE_ACCOUNT_FILE, as Pravega's own clients "
            "do",
            former=("credentials.username",),
            required_with=(when("password"),),
        ),
        common_option("password", former=("credentials.password",), required_with=(when("user"),)),
        Option(
            "token",
            "A bearer token, instead of user and password",
            secret=True,
            former=("credentials.token",),
            excludes=(when("user"),),
        ),
        Option(
            "keycloakFile",
            "A keycloak.json, as Keycloak hands it out for a service account, instead of user and password: tokens are "
            "fetched and renewed. Read on the driver",
            kind="file",
            former=("credentials.keycloak.file",),
            excludes=(when("user"), when("token")),
        ),
        common_option(
            "tls.caFile",
            ". Unset: the environment's PRAVEGA_TLS_CA_LOCATION, else the system's",
            former=("tls.ca.location",),
        ),
        common_option("tls.checkHostname", "; not Keycloak's, which is always checked", former=("tls.validateHost",)),
        common_option("requestTimeout", "; it is made up to four times", former=("request.timeout",)),
    )
)


def connection_settings(values: OptionValues) -> ControllerSettings:
    """Returns the settings of ``values`` and the environment. Raises BadConfigurationError."""
    controller = values["controller"]
    settings = ControllerSettings(
        # An address that is set and empty would be another server's: that is refused below.
        uri=(os.environ.get("PRAVEGA_CONTROLLER_URI") or DEFAULT_CONTROLLER) if controller is None else controller,
        credentials=_credentials(values),
        ca_file=_ca_file(values),
        validate_host=values["tls.checkHostname"],
        timeout_s=values["requestTimeout"] / 1000,
    )
    over_https = isinstance(settings.credentials, KeycloakCredentials)
    for name in ("tls.caFile", "tls.checkHostname"):
        if values.is_set(name) and not settings.is_secure and not (over_https and name == "tls.caFile"):
            raise BadConfigurationError(f"option '{name}' is for a controller that is written as tls://host:port")
    if not settings.addresses:
        raise BadConfigurationError("option 'controller' names no address")
    return settings


def _credentials(values: OptionValues) -> Credentials | KeycloakCredentials | None:
    user, password, token, keycloak = (values[name] for name in ("user", "password", "token", "keycloakFile"))
    if token is not None:
        return Credentials("Bearer", token.strip().removeprefix("Bearer "))
    if user is not None:
        return Credentials.basic(user, password)
    if keycloak is not None:
        try:
            return _keycloak(keycloak, values)
        except BadConfigurationError as error:
            raise BadConfigurationError(f"option 'keycloakFile': {error}") from None
    method, found = (os.environ.get(f"pravega_client_auth_{part}") for part in ("method", "token"))
    if method and found:
        return Credentials(method, found)
    file = os.environ.get("KEYCLOAK_SERVICE_ACCOUNT_FILE")
    return _keycloak(file, values) if file else None


def _keycloak(path: str, values: OptionValues) -> KeycloakCredentials:
    return KeycloakCredentials.from_file(path, _ca_file(values), values["requestTimeout"] / 1000)


def _ca_file(values: OptionValues) -> str | None:
    return values["tls.caFile"] or os.environ.get("PRAVEGA_TLS_CA_LOCATION")


def default_scope(values: OptionValues) -> str | None:
    """Returns the scope of streams that name none."""
    scope: str | None = values["scope"]
    if scope is None:
        scope = os.environ.get("PRAVEGA_SCOPE") or None
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
