"""Login modules of the Java client as librdkafka's settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock_kafka.config import ClientSettings
from penstock_kafka.config._jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
TOKENS = {"sasl.oauthbearer.token.endpoint.url": "https://h/token"}


def sasl(jaas, **more):
    given = {"bootstrap.servers": "h:1", "sasl.jaas.config": jaas, **{k.replace("_", "."): v for k, v in more.items()}}
    found = ClientSettings.from_options(given, "consumer").librdkafka()
    del found["bootstrap.servers"]
    return found


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required a="b";', {"a": "b"}),
        ("M required;", {}),
        ("M REQUIRED\n  a='b c'\n  d = \"e\" ; ", {"a": "b c", "d": "e"}),
        (r'M required a="say \"hi\" \\ \t\101;=";', {"a": 'say "hi" \\ \tA;='}),
        ("M required a='it''s';", None),
        (r"M required a='it\'s' b=\"x\";", None),
        ("M required a='\"' b=\"'\";", {"a": '"', "b": "'"}),
        ("M required a=plain-word_1$ b=123;", {"a": "plain-word_1$", "b": "123"}),
        ('M /* a="x" */ required // b="y"\n c="//z";', {"c": "//z"}),
        ('M required a="ü€😀";', {"a": "ü€😀"}),
        ('M required a="";', {"a": ""}),
    ],
)
def test_quotes_and_comments(text, options):
    if options is None:
        with pytest.raises(ValueError, match="at character"):
            parse_jaas(text)
    else:
        assert parse_jaas(text).options == options


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(st.characters(exclude_characters="\n\0"))))
def test_any_value_can_be_quoted(options):
    quoted = [
        name + "=" + quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
        for index, (name, value) in enumerate(options.items())
        for quote in ["'\""[index % 2]]
    ]
    assert parse_jaas(f"a.b.M required {' '.join(quoted)};").options == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with the class"),
        ("M", "must begin with the class"),
        ('M maybe a="b";', "at character 3: write 'required'"),
        ('M required a="b"', "at character 16: it must end with a semicolon"),
        ('M required a="b;', "at character 14: the quote that begins here is never closed"),
        ("M required a=;", "at character 13: a value is missing"),
        ('M required a "b";', "at character 12: expected name="),
        ('M required a="b"; N required;', "at character 19: write one login module"),
    ],
)
def test_mistakes_are_placed(text, message):
    with pytest.raises(ValueError) as caught:
        parse_jaas(text)
    assert message in str(caught.value)


def test_plain():
    expected = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": 'p"w'}
    text = PLAIN + r' required username="u" password="p\"w";'
    assert sasl(text) == sasl(text, sasl_mechanism="PLAIN") == expected
    assert sasl("kafkashaded." + text) == expected


def test_scram():
    text = SCRAM + ' required username="u" password="p";'
    assert sasl(text, sasl_mechanism="SCRAM-SHA-512")["sasl.mechanism"] == "SCRAM-SHA-512"
    assert sasl(text, sasl_mechanism="scram-sha-256")["sasl.username"] == "u"


def test_oauth():
    text = OAUTH + ' required clientId="c" clientSecret="s" scope="a b" extension_x="1" extension_y="2";'
    handler = {"sasl.login.callback.handler.class": f"{OAUTH.removesuffix('LoginModule')}LoginCallbackHandler"}
    expected = {
        **TOKENS,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "a b",
        "sasl.oauthbearer.extensions": "x=1,y=2",
    }
    assert sasl(text, sasl_mechanism="OAUTHBEARER", **TOKENS, **handler) == expected


def test_retriever_classes_say_which_grant():
    given = {
        "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
    }
    found = ClientSettings.from_options({"bootstrap.servers": "h:1", **given}, "admin").librdkafka()
    assert found["sasl.oauthbearer.grant.type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert found["sasl.oauthbearer.method"] == "oidc"


def test_kerberos():
    text = (
        KERBEROS
        + ' required useKeyTab=true storeKey=true keyTab="file:/k/u.keytab" principal="u@R" serviceName="kafka1";'
    )
    assert sasl(text) == {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": "/k/u.keytab",
        "sasl.kerberos.principal": "u@R",
        "sasl.kerberos.service.name": "kafka1",
    }
    cached = sasl(KERBEROS + " required useTicketCache=true;", sasl_kerberos_service_name="kafka")
    assert cached["sasl.kerberos.kinit.cmd"] == "" and cached["sasl.kerberos.service.name"] == "kafka"


def test_a_delegation_token():
    text = SCRAM + ' required tokenauth=true username="id" password="hmac";'
    assert sasl(text, sasl_mechanism="SCRAM-SHA-256") == {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "id",
        "sasl.password": "hmac",
        "sasl.scram.tokenauth": "true",
    }


IAM = "software.amazon.msk.auth.iam."


def test_the_iam_of_amazons_own_client():
    handler = {"sasl.client.callback.handler.class": f"{IAM}IAMClientCallbackHandler"}
    found = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": "aws_msk_iam"}
    assert sasl(f"{IAM}IAMLoginModule required;", sasl_mechanism="AWS_MSK_IAM", **handler) == found
    role = f'{IAM}IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r" awsProfileName="p";'
    config = {"sasl.oauthbearer.config": "role_arn=arn:aws:iam::1:role/r,profile=p"}
    assert sasl(role, sasl_mechanism="AWS_MSK_IAM") == {**found, **config}


def test_the_tokens_of_googles_own_handler():
    handler = {"sasl.login.callback.handler.class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"}
    assert sasl(OAUTH + " required;", sasl_mechanism="OAUTHBEARER", **handler) == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": "google",
    }


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (SCRAM + ' required username="u" password="p";', {}, "must be SCRAM-SHA-256 or SCRAM-SHA-512 for Scram"),
        (PLAIN + ' required username="u" password="p";', {"sasl_mechanism": "GSSAPI"}, "must be PLAIN for PlainLogin"),
        (PLAIN + ' required username="u";', {}, "has no password: write PlainLoginModule required"),
        (SCRAM + ' required tokenauth=true username="u";', {"sasl_mechanism": "SCRAM-SHA-256"}, "has no password"),
        (OAUTH + ' required clientId="c";', {}, "needs 'kafka.sasl.oauthbearer.token.endpoint.url'"),
        (OAUTH + ' required clientId="c" ssl.truststore.location="/x";', TOKENS, "'kafka.https.ca.location'"),
        ("com.vendor.LoginModule required;", {}, "kafka.sasl.oauthbearer.token.provider"),
        (PLAIN + ' required username="u" password="p";', {"sasl_username": "v"}, "same setting with two values"),
    ],
)  # fmt: skip
def test_what_can_not_be_translated(text, more, message):
    with pytest.raises(BadConfigurationError) as caught:
        sasl(text, **more)
    assert message in str(caught.value)
