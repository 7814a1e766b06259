"""Bearer tokens that log in to a server: who provides them, and the one of a process, kept until it is about to end.

A login of your own is a class that implements :class:`TokenProvider`::

    class VaultTokens(TokenProvider):
        def __init__(self, settings):
            self.role = settings["role"]

        def token(self):
            answer = vault.read(f"identity/oidc/token/{self.role}")
            return Token(answer["token"], expires_at=time.time() + answer["ttl"])
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.options import load_object
from penstock.printable import get_logger
from penstock.system import system

__all__ = ["Token", "TokenProvider", "TokenSource", "load_token_provider"]

_log = get_logger("penstock.tokens")
#: A token is renewed after this part of its life.
_USED_PART = 0.8
#: After a renewal that failed, the next one waits so long, while the token is still good.
_PAUSE_S = 1.0


@dataclass(frozen=True)
class Token:
    """A bearer token. The repr hides it.

    ``expires_at`` is in seconds since the epoch. ``principal`` is the user that it stands for, where the client has to
    say so; a server reads it from the token. ``extensions`` are SASL extensions (RFC 7628, section 3.1).
    """

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenProvider(ABC):
    """Gets tokens from wherever they are given out. Implement it for a login of your own.

    Constructed once in each process that reads the options or connects (the driver's, and each of Spark's Python
    workers) with one argument, the ``name=value`` pairs of the options. A constructor raises BadConfigurationError, or
    KeyError for a pair that is missing. Nothing of it is pickled or stored.
    """

    @abstractmethod
    def token(self) -> Token:
        """Returns a new token, or one that is still good.

        Called by any thread, by one at a time, when the last token has used up 80 % of its life. A connection waits for
        it: return within 10 seconds. Raises RetriableError or OSError for what may pass (the last token is used while
        it is good), and BadConfigurationError for what will not. Never put a secret into an error's text.
        """


class TokenSource:
    """The token of a process: got from a provider when it is asked for, and kept. Thread-safe.

    ``name`` is what errors call the provider. The repr hides the token.
    """

    def __init__(self, provider: TokenProvider, name: str) -> None:
        self._provider = provider
        self._name = name
        #: Held while a token is got, so that one thread does it and the others wait for it.
        self._lock = threading.Lock()
        self._token: Token | None = None
        #: By the monotonic clock: when to get the next one, and until when this one may be used.
        self._renew_at = self._ends_at = 0.0

    def current(self) -> Token:
        """Returns a token that is good for a while yet; gets a new one where needed.

        A renewal that fails with a RetriableError is tried again later while the last token is good. Raises what the
        provider raises: RetriableError for what may pass, BadConfigurationError for everything else.
        """
        with self._lock:
            now = system().monotonic()
            if self._token is None or now >= self._renew_at:
                try:
                    self._renew(now)
                except RetriableError as error:
                    if self._token is None or now >= self._ends_at:
                        raise
                    self._renew_at = now + _PAUSE_S
                    _log.warning("no new token from %s yet, and the last one is still good: %s", self._name, error)
            assert self._token is not None
            return self._token

    def _renew(self, now: float) -> None:
        token = self._asked()
        lasts_s = token.expires_at - system().now_us() / 1e6
        self._token, self._renew_at, self._ends_at = token, now + lasts_s * _USED_PART, now + lasts_s

    def _asked(self) -> Token:
        try:
            token = self._provider.token()
        except PenstockError:
            raise
        except OSError as error:
            raise RetriableError(f"no token from {self._name}: {type(error).__name__}: {error}") from error
        except Exception as error:
            raise BadConfigurationError(f"no token from {self._name}: {type(error).__name__}: {error}") from error
        if not isinstance(token, Token):
            raise BadConfigurationError(
                f"{self._name} returns {type(token).__name__} in place of a penstock.tokens.Token"
            )
        return token


def load_token_provider(owner: str, reference: str, settings: Mapping[str, str]) -> TokenProvider:
    """Returns the provider that an option names as ``module:Class``, constructed with ``settings``.

    Raises BadConfigurationError that begins with ``owner`` for what can't be imported, is no provider, or refuses its
    settings.
    """
    made = load_object(owner, reference)
    if not (isinstance(made, type) and issubclass(made, TokenProvider)):
        raise BadConfigurationError(f"{owner}: {reference} is no class that extends penstock.tokens.TokenProvider")
    make: Callable[[Mapping[str, str]], TokenProvider] = made
    try:
        return make(settings)
    except PenstockError:
        raise
    except KeyError as error:
        raise BadConfigurationError(f"{owner}: {reference} needs the setting {error}") from error
    except Exception as error:
        raise BadConfigurationError(
            f"{owner}: {reference} can't be constructed: {type(error).__name__}: {error}"
        ) from error
