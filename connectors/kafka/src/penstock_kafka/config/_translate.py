"""All client settings of one client, in either spelling, as librdkafka's."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Literal

from penstock.errors import BadConfigurationError
from penstock.options import nearest_hint, parse_port
from penstock.tls import warn_of_unchecked
from penstock_kafka.config._guarantees import GUARDED
from penstock_kafka.config._java import JAVA_NAMES, JAVA_RULES
from penstock_kafka.config._librdkafka import CHOICES, PROPERTIES, canonical
from penstock_kafka.config._rules import Rule, renamed, wrong
from penstock_kafka.config._sasl import SASL_SETTINGS, SASL_WITHOUT_EFFECT, check_login, translate_sasl
from penstock_kafka.config._secrets import is_secret_setting
from penstock_kafka.config._stores import STORE_SETTINGS, stray_settings, translate_stores

__all__ = ["Role", "translate"]

#: Properties that are times and sizes, as numbers; librdkafka itself refuses what is out of range.
_NUMBERS = re.compile(r"\.(?:ms|k?bytes)$")
_NUMBER = re.compile(r"-1|[0-9]+(?:\.[0-9]+)?")
#: What a client is there for: it decides which settings it takes.
Role = Literal["consumer", "producer", "admin"]
#: ``[protocol://]host[:port]``, with brackets around an IPv6 address.
_ADDRESS = re.compile(r"(?:(\w+)://)?(?:\[[0-9A-Fa-f:.%\w]+\]|[^:/\s\[\]]+)(?::([0-9]{1,5}))?")


def translate(kafka: Mapping[str, str], role: Role) -> dict[str, str]:
    """librdkafka's properties for the options ``kafka`` (without their prefix) of a client of ``role``.

    Settings without an effect here are left out, with one warning that names them; an ``admin`` client takes those of
    consumers and producers silently, as it is made together with one of them. Raises BadConfigurationError for a
    setting that neither client knows (with the nearest name), that can't be translated, or that the connector sets
    itself. Neither the warning nor an error holds the value of a secret.
    """
    given = _canonical(kafka)
    found = _Merged()
    ignored = [*(SASL_WITHOUT_EFFECT & given.keys()), *stray_settings(given)]
    found.add("sasl.jaas.config", translate_sasl(given))
    found.add("ssl.keystore.location", translate_stores(given))
    for name, value in given.items():
        if name in SASL_SETTINGS or name in STORE_SETTINGS:
            continue
        try:
            translated = _rule_of(name)(value, given)
        except ValueError as error:
            raise wrong(name, str(error)) from None
        for property_, text in (translated or {}).items():
            _check_value(name, property_, text)
        kept = {n: v for n, v in (translated or {}).items() if PROPERTIES[n] in ("*", role)}
        if kept:
            found.add(name, kept)
        else:
            ignored.append(name)
    if ignored and role != "admin":
        warnings.warn(f"settings without an effect on the {role} of penstock.kafka: {_listed(ignored)}", stacklevel=3)
    check_login(found.settings)
    if role != "admin":
        _warn_of_unused(given.keys() - set(ignored), found.settings)
    _warn_of_unchecked(found.settings)
    if not found.settings.get("bootstrap.servers", "").strip(" ,"):
        raise wrong("bootstrap.servers", "must name the brokers, as in host1:9092,host2:9092")
    _check_addresses(found.settings["bootstrap.servers"])
    return found.settings


def _check_value(name: str, property_: str, text: str) -> None:
    """``name`` is what the user set, ``property_`` what it is for librdkafka, which would refuse it once it runs."""
    choices = CHOICES.get(property_)
    if choices is not None and text.lower() not in choices:
        raise wrong(name, f"takes one of {', '.join(choices)}, not {text!r}{nearest_hint(text, choices)}")
    if _NUMBERS.search(property_) and not _NUMBER.fullmatch(text):
        raise wrong(name, f"needs a number, not {text!r}")


def _check_addresses(servers: str) -> None:
    if "@" in servers:
        raise wrong(
            "bootstrap.servers",
            "holds a user or a password: write host:port, and those as kafka.sasl.username and kafka.sasl.password",
        )
    for one in servers.split(","):
        found = _ADDRESS.fullmatch(one.strip())
        if one.strip() and found is None:
            raise wrong("bootstrap.servers", f"names {one.strip()!r}, which is not host:port")
        if found is None:
            continue
        protocol, port = found.groups()
        try:
            if port is not None:
                parse_port(port)
        except ValueError as error:
            raise wrong("bootstrap.servers", f"names {one.strip()!r}, whose port is not {error}") from None
        if protocol is not None and protocol.lower() not in CHOICES["security.protocol"]:
            advice = "write host:port alone, with the listener's protocol as kafka.security.protocol"
            raise wrong("bootstrap.servers", f"names {one.strip()!r}, which is no broker's address: {advice}")


def _warn_of_unused(given: Iterable[str], settings: Mapping[str, str]) -> None:
    """Warns of what is set for a login, or for TLS, with a protocol that has none."""
    protocol = settings.get("security.protocol", "plaintext").lower()
    for prefix, has_it, needed in (
        ("sasl.", protocol.startswith("sasl"), "SASL_SSL or SASL_PLAINTEXT"),
        ("ssl.", protocol.endswith("ssl"), "SSL or SASL_SSL"),
    ):
        unused = [name for name in given if name.startswith(prefix)]
        if unused and not has_it:
            warnings.warn(
                f"settings without an effect unless kafka.security.protocol is {needed}: {_listed(unused)}",
                stacklevel=4,
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"kafka.{name}" for name in sorted(names))


def _warn_of_unchecked(settings: Mapping[str, str]) -> None:
    if not settings.get("security.protocol", "plaintext").upper().endswith("SSL"):
        return
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        warn_of_unchecked("kafka.enable.ssl.certificate.verification=false", names_only=False)
    elif settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        warn_of_unchecked("kafka.ssl.endpoint.identification.algorithm=none", names_only=True)


class _Merged:
    """Settings with the names they came from: two names with one meaning may not disagree."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def add(self, origin: str, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            if self.settings.setdefault(name, value) != value:
                raise _disagree(self._origins[name], origin)
            self._origins.setdefault(name, origin)


def _disagree(first: str, second: str) -> BadConfigurationError:
    return wrong(first, f"and 'kafka.{second}' are the same setting with two values: write one of them")


def _canonical(kafka: Mapping[str, str]) -> dict[str, str]:
    """Returns lower-case names without aliases, and values without blanks at their ends (secrets may have some)."""
    given: dict[str, str] = {}
    origins: dict[str, str] = {}
    for spelled, value in kafka.items():
        name = canonical(spelled.strip().lower())
        text = value if is_secret_setting(name) else value.strip()
        if given.setdefault(name, text) != text:
            raise _disagree(origins[name], spelled)
        origins.setdefault(name, spelled)
    return given


def _rule_of(name: str) -> Rule:
    rule = GUARDED.get(name) or JAVA_RULES.get(name)
    if rule is not None:
        return rule
    if name in PROPERTIES:
        return renamed(name)
    if name.startswith("config.providers."):
        return JAVA_RULES["config.providers"]
    near = difflib.get_close_matches(name, {*PROPERTIES, *JAVA_NAMES}, n=1, cutoff=0.6)
    hint = f"; did you mean 'kafka.{near[0]}'?" if near else ""
    raise ValueError(f"is known neither to the Java client nor to librdkafka{hint}")
