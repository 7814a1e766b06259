"""A login of the user's own: one of the driver's ``AuthProvider``."""

from __future__ import annotations

from typing import Any

from cassandra.auth import AuthProvider

from penstock.errors import BadConfigurationError, PenstockError
from penstock.options import load_object, parse_pairs
from penstock_cassandra.client._settings import ConnectionSettings

__all__ = ["own_auth_provider"]


def own_auth_provider(settings: ConnectionSettings) -> Any:
    """Returns the provider that ``settings`` name, constructed with its pairs (a mapping of texts).

    In each process that connects. The driver asks it for an authenticator for each connection, in any thread. Raises
    BadConfigurationError for what can't be imported, is no provider, or refuses its settings.
    """
    reference = settings.auth_provider
    owner = f"option 'authProvider': {reference}"
    made = load_object("option 'authProvider'", reference)
    if not (isinstance(made, type) and issubclass(made, AuthProvider)):
        raise BadConfigurationError(f"{owner} is no class that extends cassandra.auth.AuthProvider")
    try:
        return made(parse_pairs(settings.auth_config))
    except PenstockError:
        raise
    except KeyError as error:
        raise BadConfigurationError(f"{owner} needs the setting {error} in 'authProvider.config'") from error
    except Exception as error:
        raise BadConfigurationError(f"{owner} can't be constructed: {type(error).__name__}: {error}") from error
