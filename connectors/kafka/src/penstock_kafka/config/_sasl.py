"""Authentication: the Java client's login modules and callback handlers as librdkafka's ``sasl.*`` properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from penstock.options import nearest_hint
from penstock_kafka.config._jaas import LoginModule, parse_jaas
from penstock_kafka.config._rules import wrong
from penstock_kafka.config._tokens import TOKEN_PROVIDER, sasl_pairs

__all__ = ["SASL_SETTINGS", "SASL_WITHOUT_EFFECT", "check_login", "translate_sasl"]

_WITHOUT_EFFECT = """
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
"""
_CLASSES = """
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    sasl.oauthbearer.jwt.retriever.class
"""
#: What this module translates; the caller passes all of them in and takes the result instead.
SASL_SETTINGS = frozenset(
    f"""
    sasl.jaas.config sasl.mechanism sasl.kerberos.kinit.cmd sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.token.endpoint.url sasl.scram.tokenauth {TOKEN_PROVIDER}
    {_WITHOUT_EFFECT} {_CLASSES}
    """.split()
)
SASL_WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: Retrievers and handlers that do what ``sasl.oauthbearer.method=oidc`` does, with the grant that they use.
_OIDC_CLASSES = {
    "ClientCredentialsJwtRetriever": {"sasl.oauthbearer.grant.type": "client_credentials"},
    "DefaultJwtRetriever": {},
    "JwtBearerJwtRetriever": {"sasl.oauthbearer.grant.type": _JWT_BEARER},
    "OAuthBearerLoginCallbackHandler": {},
}
_OIDC_ADVICE = (
    "write kafka.sasl.mechanism=OAUTHBEARER, kafka.sasl.oauthbearer.method=oidc, "
    "kafka.sasl.oauthbearer.token.endpoint.url, kafka.sasl.oauthbearer.client.id and "
    "kafka.sasl.oauthbearer.client.secret"
)
_OWN_ADVICE = f"or name a token provider in kafka.{TOKEN_PROVIDER}"
#: Callback handlers of vendors, with the provider that does the same.
_VENDORS_CLASSES = {
    "GcpLoginCallbackHandler": "google",
    "IAMClientCallbackHandler": "aws_msk_iam",
    "IAMOAuthBearerLoginCallbackHandler": "aws_msk_iam",
}
_WITH_JAAS = (
    "PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, Krb5LoginModule and IAMLoginModule are understood"
)


_AS_THEY_ARE = ("sasl.oauthbearer.token.endpoint.url", TOKEN_PROVIDER)
_MSK_IAM = "AWS_MSK_IAM"
_MECHANISMS = ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def translate_sasl(given: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's ``sasl.*`` for :data:`SASL_SETTINGS`.

    Raises BadConfigurationError with what to write instead for what only a JVM can do. Its text never holds a part of
    ``sasl.jaas.config``.
    """
    found = {name: given[name] for name in _AS_THEY_ARE if name in given}
    if "sasl.mechanism" in given:
        found["sasl.mechanism"] = _known_mechanism(given["sasl.mechanism"])
    if found.get("sasl.mechanism") == _MSK_IAM:
        # What only Amazon's own client speaks; its brokers take the same signature as a token, at the same address.
        found |= {"sasl.mechanism": "OAUTHBEARER", TOKEN_PROVIDER: "aws_msk_iam"}
    if "@" in found.get("sasl.oauthbearer.token.endpoint.url", ""):
        raise wrong("sasl.oauthbearer.token.endpoint.url", f"must not hold credentials: {_OIDC_ADVICE}")
    found.update(_of_classes(given))
    if "sasl.oauthbearer.assertion.template.file" in given:
        found["sasl.oauthbearer.assertion.jwt.template.file"] = given["sasl.oauthbearer.assertion.template.file"]
    if given.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true":
        raise wrong(
            "sasl.oauthbearer.header.urlencode",
            "is not supported: choose a client id and secret without characters that URLs escape, and leave it out",
        )
    if "sasl.kerberos.kinit.cmd" in given:
        found["sasl.kerberos.kinit.cmd"] = _kinit(given["sasl.kerberos.kinit.cmd"])
    if "sasl.jaas.config" in given:
        found.update(_of_jaas(given["sasl.jaas.config"], given))
    if "sasl.scram.tokenauth" in given:
        found["sasl.scram.tokenauth"] = _tokenauth(given["sasl.scram.tokenauth"], found)
    if TOKEN_PROVIDER in found:
        _check_provider(found, given)
    sasl_pairs("sasl.oauthbearer.extensions", given)
    return found


def check_login(settings: Mapping[str, str]) -> None:
    """Raises BadConfigurationError for a protocol with SASL, in ``settings`` as librdkafka spells them, without what
    its mechanism needs.
    """
    if not settings.get("security.protocol", "plaintext").lower().startswith("sasl"):
        return
    mechanism = settings.get("sasl.mechanism", "GSSAPI")
    if mechanism == "OAUTHBEARER":
        if TOKEN_PROVIDER not in settings and settings.get("sasl.oauthbearer.method", "default").lower() != "oidc":
            raise wrong("sasl.mechanism", f"is OAUTHBEARER, which needs tokens: {_OIDC_ADVICE}; {_OWN_ADVICE}")
    elif mechanism != "GSSAPI":
        for name in ("sasl.username", "sasl.password"):
            if not settings.get(name):
                raise wrong(name, f"is missing: {mechanism} needs it (or 'kafka.sasl.jaas.config')")


def _known_mechanism(text: str) -> str:
    chosen = text.strip().upper()
    if chosen not in (*_MECHANISMS, _MSK_IAM):
        near = nearest_hint(chosen, _MECHANISMS)
        raise wrong("sasl.mechanism", f"takes one of {', '.join(_MECHANISMS)}, not {text!r}{near}")
    return chosen


def _tokenauth(text: str, found: Mapping[str, str]) -> str:
    if text.lower() not in ("true", "false"):
        raise wrong("sasl.scram.tokenauth", "is true or false")
    if text.lower() == "true" and not found.get("sasl.mechanism", "").startswith("SCRAM-"):
        raise wrong("sasl.mechanism", "must be SCRAM-SHA-256 or SCRAM-SHA-512 for a delegation token")
    return text.lower()


def _check_provider(found: Mapping[str, str], given: Mapping[str, str]) -> None:
    if found.get("sasl.mechanism") != "OAUTHBEARER":
        raise wrong("sasl.mechanism", f"must be OAUTHBEARER, because 'kafka.{TOKEN_PROVIDER}' is given")
    if found.get("sasl.oauthbearer.method", given.get("sasl.oauthbearer.method", "default")).lower() == "oidc":
        raise wrong(TOKEN_PROVIDER, "and 'kafka.sasl.oauthbearer.method' are two ways to a token: write one of them")
    sasl_pairs("sasl.oauthbearer.config", given)


def _of_classes(given: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _CLASSES.split():
        if name not in given:
            continue
        if vendor := _VENDORS_CLASSES.get(given[name].rpartition(".")[2]):
            found[TOKEN_PROVIDER] = vendor
            continue
        grant = _OIDC_CLASSES.get(given[name].rpartition(".")[2])
        if grant is None:
            raise wrong(
                name,
                f"is a class of a JVM. For OAuth {_OIDC_ADVICE}; {_OWN_ADVICE}; else {_WITH_JAAS} in sasl.jaas.config",
            )
        found |= {"sasl.oauthbearer.method": "oidc", **grant}
    return found


def _kinit(command: str) -> str:
    """Java's is the path of a program, librdkafka's a command line."""
    if not command or len(command.split()) > 1:
        return command
    keytab, principal = '-t "%{sasl.kerberos.keytab}"', "-k %{sasl.kerberos.principal}"
    return f"{command} -R {keytab} {principal} || {command} {keytab} {principal}"


def _of_jaas(text: str, given: Mapping[str, str]) -> dict[str, str]:
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise wrong("sasl.jaas.config", f"can't be read: {error}") from None
    translate = _MODULES.get(module.short_name)
    if translate is None:
        _refuse(
            f"names a login module that only a JVM can run; {_WITH_JAAS}. "
            f"In place of cloud providers' own modules {_OIDC_ADVICE}; {_OWN_ADVICE}"
        )
    return translate(module, given)


def _plain(module: LoginModule, given: Mapping[str, str]) -> dict[str, str]:
    return {"sasl.mechanism": _mechanism(module, given, "PLAIN"), **_user(module)}


def _scram(module: LoginModule, given: Mapping[str, str]) -> dict[str, str]:
    found = {"sasl.mechanism": _mechanism(module, given, "SCRAM-SHA-256", "SCRAM-SHA-512"), **_user(module)}
    if module.options.get("tokenauth", "").lower() == "true":
        found["sasl.scram.tokenauth"] = "true"
    return found


def _user(module: LoginModule) -> dict[str, str]:
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        _refuse(f'has no {missing[0]}: write {module.short_name} required username="…" password="…";')
    return {"sasl.username": module.options["username"], "sasl.password": module.options["password"]}


def _oauth(module: LoginModule, given: Mapping[str, str]) -> dict[str, str]:
    options = module.options
    if TOKEN_PROVIDER in given or any(
        given.get(name, "").rpartition(".")[2] in _VENDORS_CLASSES for name in _CLASSES.split()
    ):
        return {"sasl.mechanism": _mechanism(module, given, "OAUTHBEARER")}
    if not given.get("sasl.oauthbearer.token.endpoint.url"):
        _refuse(f"needs 'kafka.sasl.oauthbearer.token.endpoint.url' with OAuthBearerLoginModule; or {_OIDC_ADVICE}")
    if any(name.startswith("ssl.") for name in options):
        _refuse(
            "holds TLS settings of the token's address: write them as 'kafka.https.ca.location' or 'kafka.https.ca.pem'"
        )
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    found = {f"sasl.oauthbearer.{names[name]}": text for name, text in options.items() if name in names}
    extensions = [
        f"{name.removeprefix('extension_')}={text}" for name, text in options.items() if name.startswith("extension_")
    ]
    if extensions:
        found["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return {
        "sasl.mechanism": _mechanism(module, given, "OAUTHBEARER"),
        "sasl.oauthbearer.method": "oidc",
        **found,
    }


def _msk_iam(module: LoginModule, given: Mapping[str, str]) -> dict[str, str]:
    names = {"awsProfileName": "profile", "awsRoleArn": "role_arn", "awsRoleSessionName": "role_session_name"}
    pairs = [f"{names[name]}={text}" for name, text in module.options.items() if name in names]
    found = {"sasl.oauthbearer.config": ",".join(pairs)} if pairs else {}
    return {"sasl.mechanism": "OAUTHBEARER", TOKEN_PROVIDER: "aws_msk_iam", **found}


def _kerberos(module: LoginModule, given: Mapping[str, str]) -> dict[str, str]:
    names = {
        "keyTab": "sasl.kerberos.keytab",
        "principal": "sasl.kerberos.principal",
        "serviceName": "sasl.kerberos.service.name",
    }
    found = {names[name]: text for name, text in module.options.items() if name in names}
    if "sasl.kerberos.keytab" in found:
        found["sasl.kerberos.keytab"] = found["sasl.kerberos.keytab"].removeprefix("file:")
    elif "sasl.kerberos.kinit.cmd" not in given:
        # Without a key tab the ticket cache is used as another program keeps it: an empty command renews nothing.
        found["sasl.kerberos.kinit.cmd"] = ""
    return {"sasl.mechanism": _mechanism(module, given, "GSSAPI"), **found}


def _mechanism(module: LoginModule, given: Mapping[str, str], *fitting: str) -> str:
    """Returns the mechanism given, which must fit the module; the only fitting one if none is given."""
    chosen = given.get("sasl.mechanism", "").strip().upper()
    if chosen in fitting:
        return chosen
    if not chosen and len(fitting) == 1:
        return fitting[0]
    raise wrong("sasl.mechanism", f"must be {' or '.join(fitting)} for {module.short_name} in 'kafka.sasl.jaas.config'")


_MODULES: Mapping[str, Callable[[LoginModule, Mapping[str, str]], dict[str, str]]] = {
    "IAMLoginModule": _msk_iam,
    "Krb5LoginModule": _kerberos,
    "OAuthBearerLoginModule": _oauth,
    "PlainLoginModule": _plain,
    "ScramLoginModule": _scram,
}


def _refuse(advice: str) -> NoReturn:
    raise wrong("sasl.jaas.config", advice)
