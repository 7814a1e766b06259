"""Providers of tokens: the vendors', held against the vendors' own signers, and what a user's own may do wrong."""

from __future__ import annotations

import base64
import json
import time
from datetime import datetime, timezone
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from identity import IdentityProvider, stand_in
from penstock.errors import BadConfigurationError, RetriableError
from penstock.system import System
from penstock.system import use as use_system
from penstock.tokens import Token, TokenProvider, TokenSource
from penstock_kafka import KafkaConnector
from penstock_kafka.client.login import token_source
from penstock_kafka.config import ClientSettings

PROVIDER = "sasl.oauthbearer.token.provider"


def source(provider, config="", servers="h:1"):
    kafka = {"bootstrap.servers": servers, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    kafka |= {PROVIDER: provider, **({"sasl.oauthbearer.config": config} if config else {})}
    return token_source(ClientSettings.from_options(kafka, "admin").librdkafka())


@pytest.fixture
def aws(monkeypatch):
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="pip install 'penstock-kafka[aws]'")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")


@pytest.mark.parametrize("session", [None, "s3ss10n"])
def test_msk_signs_as_botocore_does(aws, session, monkeypatch):
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    if session:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    brokers = f"b-1.{'s' if session else 'n'}.abc.c1.kafka.eu-central-1.amazonaws.com:9098"
    token = source("aws_msk_iam", servers=brokers).current()
    url = base64.urlsafe_b64decode(token.value + "==").decode()
    found = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    at = datetime.strptime(found["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)

    class AtThatTime(SigV4QueryAuth):
        def _modify_request_before_signing(self, request):
            request.context["timestamp"] = found["X-Amz-Date"]
            super()._modify_request_before_signing(request)

    request = AWSRequest("GET", "https://kafka.eu-central-1.amazonaws.com/", params={"Action": "kafka-cluster:Connect"})
    signer = AtThatTime(Credentials("AKIAEXAMPLE", "s3cr3t", session), "kafka-cluster", "eu-central-1", 900)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at.replace(tzinfo=None))
    signer.add_auth(request)
    wanted = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
    assert found.pop("User-Agent").startswith("aws-msk-iam-sasl-signer-python")
    assert found == wanted
    assert token.expires_at == pytest.approx(at.timestamp() + 900)
    assert "s3cr3t" not in repr(token) and token.value not in repr(token)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("", "needs a region"),
        ("regoin=a", "has 'regoin', which is none of region, profile"),
        ("region=eu-central-1,profile=nobodys", "AWS_PROFILE"),
    ],
)
def test_what_msk_can_not_do(aws, config, says):
    with pytest.raises(BadConfigurationError, match=says) as refused:
        source("aws_msk_iam", config).current()
    assert "s3cr3t" not in str(refused.value) and "\n" not in str(refused.value)


def test_msk_without_credentials_says_where_they_may_be(aws, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(BadConfigurationError, match="AWS_ACCESS_KEY_ID"):
        source("aws_msk_iam", "region=eu-west-1").current()


@pytest.mark.parametrize(
    ("provider", "gone", "extra"),
    [
        ("aws_msk_iam", "aws_msk_iam_sasl_signer", "aws"),
        ("azure", "azure.identity", "azure"),
        ("google", "google.auth.transport.requests", "google"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(provider, gone, extra, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, gone, None)
    with pytest.raises(BadConfigurationError) as refused:
        source(provider, {"azure": "scope=x"}.get(provider, ""), f"missing-{time.monotonic_ns()}:1")
    assert str(refused.value).endswith(f"pip install 'penstock-kafka[{extra}]'")


def test_the_scope_of_an_event_hub_is_told_by_its_address(monkeypatch):
    with IdentityProvider() as identity:
        stand_in(identity, monkeypatch.setenv)
        value = source("azure", servers="hub.servicebus.windows.net:9093").current().value
    assert claims(value)["aud"] == "https://hub.servicebus.windows.net"


def test_an_azure_that_refuses(monkeypatch):
    with IdentityProvider() as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identity.url}/azure")
        monkeypatch.setenv("IDENTITY_HEADER", "wr0ng-s3cr3t")
        with pytest.raises(BadConfigurationError, match="Entra gives no token for x") as refused:
            source("azure", "scope=x").current()
    assert "s3cr3t" not in str(refused.value) and "\n" not in str(refused.value)


def test_the_tokens_of_googles_managed_kafka(monkeypatch):
    with IdentityProvider() as identity:
        stand_in(identity, monkeypatch.setenv)
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        token = source("google", servers="managed:1").current()
    header, payload, access = (base64.urlsafe_b64decode(part + "==").decode() for part in token.value.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    found = json.loads(payload)
    assert (found["iss"], found["scope"], found["sub"]) == ("Google", "kafka", "alice@project.iam.gserviceaccount.com")
    assert found["exp"] == token.expires_at and access == "access-of-google"


def claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Scripted(TokenProvider):
    """Gives or raises what a test says, one after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def token(self):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def lasting(value, seconds):
    return Token(value, time.time() + seconds)


def test_a_token_is_kept_until_it_is_about_to_end():
    made = TokenSource(Scripted(lasting("a", 300), lasting("b", 300)), "it")
    assert [made.current().value for _ in range(3)] == ["a", "a", "a"]


class Clock(System):
    """Stands still unless a test moves it."""

    def __init__(self):
        self.began_us, self.ahead_s = super().now_us(), 0.0

    def monotonic(self):
        return self.ahead_s

    def now_us(self):
        return self.began_us + int(self.ahead_s * 1e6)


@pytest.fixture
def clock():
    made = Clock()
    use_system(made)
    yield made
    use_system(None)


def test_a_token_is_renewed_before_it_ends(clock):
    made = TokenSource(Scripted(lasting("a", 1_000), lasting("b", 3_000)), "it")
    seen = []
    for clock.ahead_s in (0, 700, 850):
        seen.append(made.current().value)
    assert seen == ["a", "a", "b"]


def test_a_renewal_that_fails_leaves_a_good_token(clock):
    script = Scripted(lasting("a", 1_000), TimeoutError("away"), TimeoutError("away"), lasting("b", 3_000))
    made, seen = TokenSource(script, "it"), []
    for clock.ahead_s in (0, 850, 850.9, 851.1, 852.2):
        seen.append(made.current().value)
    assert seen == ["a", "a", "a", "a", "b"] and not script.answers


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (ConnectionError("away"), RetriableError, "no token from it: ConnectionError: away"),
        (ValueError("what"), BadConfigurationError, "no token from it: ValueError: what"),
        ("a text", BadConfigurationError, "it returns str in place of a penstock.tokens.Token"),
        (BadConfigurationError("my own"), BadConfigurationError, "my own"),
    ],
)
def test_what_a_provider_may_raise(answer, error, says):
    with pytest.raises(error) as raised:
        TokenSource(Scripted(answer), "it").current()
    assert says in str(raised.value)


class NeedsARole(TokenProvider):
    def __init__(self, settings):
        self.role = settings["role"]

    def token(self):
        return lasting(self.role, 300)


class Broken(NeedsARole):
    def __init__(self, settings):
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("reference", "config", "says"),
    [
        ("nowhere:Class", "", "nowhere:Class can't be imported"),
        (f"{__name__}:source", "", "is no class that extends penstock.tokens.TokenProvider"),
        (f"{__name__}:NeedsARole", "", "needs the setting 'role'"),
        (f"{__name__}:NeedsARole", "role", "is written as name=value,name=value"),
        (f"{__name__}:Broken", "", "can't be constructed: RuntimeError: broken"),
        ("gcp", "", "is aws_msk_iam, azure, google, or module:Class"),
    ],
)
def test_a_provider_that_can_not_be_used(reference, config, says):
    with pytest.raises(BadConfigurationError, match=r"option 'kafka\.sasl\.oauthbearer") as refused:
        source(reference, config)
    assert says in str(refused.value)


def test_clients_of_a_process_share_a_token():
    assert source(f"{__name__}:NeedsARole", "role = r") is source(f"{__name__}:NeedsARole", "role = r")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism' must be OAUTHBEARER"),
        ({"sasl.oauthbearer.method": "oidc"}, "two ways to a token"),
        ({"sasl.oauthbearer.extensions": "cluster"}, r"extensions' is written as name=value,name=value"),
        ({"sasl.oauthbearer.extensions": "a=1,a=2"}, r"extensions' is written as name=value,name=value"),
        ({"sasl.oauthbearer.config": "role=a,role=b"}, r"config' is written as name=value,name=value"),
    ],
)
def test_settings_that_contradict_a_provider(more, says):
    kafka = {"bootstrap.servers": "h:1", "sasl.mechanism": "OAUTHBEARER", PROVIDER: "azure", **more}
    with pytest.raises(BadConfigurationError, match=says):
        ClientSettings.from_options(kafka, "admin")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"sasl.mechanism": "PLAIN"}, "SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({"sasl.scram.tokenauth": "yes"}, "true or false"),
    ],
)
def test_delegation_tokens_are_for_scram(more, says):
    kafka = {"bootstrap.servers": "h:1", "sasl.mechanism": "SCRAM-SHA-256", "sasl.scram.tokenauth": "true", **more}
    with pytest.raises(BadConfigurationError, match=says):
        ClientSettings.from_options(kafka, "admin")


@pytest.mark.parametrize("client", ["auto", "protocol", "librdkafka"])
@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_provider_is_looked_at_before_anything_connects(side, client):
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        f"kafka.{PROVIDER}": "nowhere:Class",
        "client": client,
    }
    connector = KafkaConnector()
    if side == "source":
        parsed = connector.source_options.parse({**options, "subscribe": "t"}, owner="source penstock.kafka")
        create = partial(connector.create_source, parsed)
    else:
        parsed = connector.sink_options.parse({**options, "topic": "t"}, owner="sink penstock.kafka")
        create = partial(connector.create_sink, parsed, pa.schema([("value", pa.string())]))
    with pytest.raises(BadConfigurationError, match="nowhere:Class can't be imported"):
        create()
