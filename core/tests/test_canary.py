"""A value that is searched for: every secret of every connector, in everything that is printed, logged or stored."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import traceback
import warnings
from typing import Any
from urllib.parse import quote

import pytest
from botocore.stub import Stubber
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.checkpoint import remember_sink
from penstock.cli import _app
from penstock.cli import _run as run_module
from penstock.cli._dashboard import page, read_run
from penstock.cli._run import RunChoices, run
from penstock.cli._secrets import redactor_of
from penstock.errors import PenstockError
from penstock.options import OptionSet, credentials_in, held_by_checkpoint
from penstock.sink import CheckpointLocation, SinkContext, TwoPhaseCommitSink
from penstock.storage import MemoryStorage, S3Storage
from suite.option_cases import SCHEMA, SIDES, cases

CANARY = "cXnXrX-7#§"
#: Found nowhere but in addresses.
IN_ADDRESSES = "dZnZrZ-8"
SOME = settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
#: Long enough, and of letters that our own texts do not have, not to be found in them by chance.
canaries = st.text(alphabet="XYZ#\"'\\;= %{}§", min_size=6, max_size=30).filter(
    lambda text: text.strip() == text and sum(letter in "XYZ#§" for letter in text) > 4
)
#: Names below a prefix, of which the declaration says whether they are secret.
BELOW = ("password", "sasl.password", "ssl.key.password", "SASL.Password", "my.own.setting", "basic.auth.user.info")


def forms(secret: str) -> set[str]:
    return {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret), quote(secret, safe="")}


def secrets_of(declared: OptionSet) -> list[str]:
    """Names of options whose values are secret: the declared ones, and what a prefix passes on to a client."""
    found = []
    for option in declared:
        names = [option.name[:-1] + name for name in BELOW] if option.is_prefix else [option.name]
        found += [name for name in names if declared.is_secret(name)]
    return found


def typed_options(side: str) -> list[Any]:
    """The classes that a connector's options are made into."""
    module = importlib.import_module(f"penstock_{side.partition(' ')[0]}.options")
    return [one for one in vars(module).values() if hasattr(one, "from_values")]


def everything_of(made: object) -> list[object]:
    """Every object of ours that ``made`` holds, by whatever way."""
    seen, todo = {}, [made]
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type | str | bytes | int | float):
            continue
        seen[id(one)] = one
        if type(one).__module__.startswith("penstock") or isinstance(one, dict | list | tuple | set | frozenset):
            todo += gc.get_referents(one)
    return [one for one in seen.values() if type(one).__module__.startswith("penstock")]


class Shown:
    """Collects what a user, a log or a file could get to see."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *values: object) -> None:
        for value in values:
            self.texts += [str(value), repr(value)]

    @contextlib.contextmanager
    def listening(self):
        handler = logging.Handler()
        handler.emit = lambda record: self.texts.append(logging.Formatter().format(record))
        root = logging.getLogger()
        before = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield
            self.add(*(one.message for one in caught))
        except PenstockError as error:
            self.texts += [str(error), repr(error)]
            # What is printed with it: the errors that it came of.
            self.texts += [line for line in traceback.format_exception(error) if not line.startswith("  File")]
        finally:
            root.removeHandler(handler)
            root.setLevel(before)

    def holds(self, secret: str) -> list[str]:
        return [text for text in self.texts if any(form in text for form in forms(secret))]


def show_everything(side: str, options: dict[str, str], shown: Shown) -> None:
    """Drives whatever prints or stores options, as far as it gets."""
    one = cases(side)
    for mode in ("batch", "stream"):
        shown.add(*one.declared.problems(options, owner=f"x {side}", mode=mode))
        values = one.declared.parse(options, owner=f"x {side}", mode=mode)
        shown.add(values, values.texts(secrets=False), held_by_checkpoint(values, {}, owner=side))
        for kind in typed_options(side):
            with contextlib.suppress(KeyError):  # of the other side
                shown.add(kind.from_values(values))
        made = one.make(values)
        shown.add(*everything_of(made))
        shown.add(getattr(made, "target", ""))
        if isinstance(made, TwoPhaseCommitSink):
            storage = MemoryStorage()
            remember_sink(storage, "/ck", side.partition(" ")[0], values, SCHEMA)
            shown.add(*(storage.read(path) for path in list(storage.files)))
            context = SinkContext("q", SCHEMA, checkpoint=CheckpointLocation(storage, "/ck"))
            shown.add(context, made.committable_serializer)


@pytest.mark.parametrize("side", SIDES)
def test_a_connector_shows_and_stores_no_secret(side):
    one = cases(side)
    names = secrets_of(one.declared)
    assert names or side.startswith("none")

    @SOME
    @given(st.data())
    def anything(data):
        secret = data.draw(canaries)
        options = one.drawn(lambda values: data.draw(st.sampled_from(list(values))))
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        options |= dict.fromkeys(chosen, secret)
        if "path" in options and data.draw(st.booleans()):
            options["path"] = "s3://bucket/x"
        if data.draw(st.booleans()):  # a mistake beside it
            wrong = data.draw(st.sampled_from([option.name for option in one.declared if not option.is_prefix]))
            options |= {wrong: "?", "noSuchOption": "1"} if wrong not in chosen else {"noSuchOption": "1"}
        shown = Shown()
        with shown.listening():
            show_everything(side, options, shown)
        assert not shown.holds(secret), shown.holds(secret)

    anything()


ADDRESSES = (
    "https://user:{}@host/x",
    "https://{}@host/x",
    "s3://key:{}@bucket/path",
    "hdfs://user:{}@host/x",
    "jdbc:postgresql://host/db?user=u&password={}",
    "jdbc:sqlserver://host;password={};x=1",
    "https://host/x?api_key={}",
    "https://host/x?sas-token={}&x=1",
)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_password_in_an_address_is_refused_unseen(side, address):
    """In whichever option that takes any text and is shown."""
    one, secret = cases(side), "cXnXrX7"
    tried = 0
    for option in one.declared:
        if option.kind != "string" or option.choices or one.declared.is_secret(option.name):
            continue
        tried += 1
        shown = Shown()
        name = option.name.replace("*", "client.id")
        with shown.listening():
            show_everything(side, {**one.given, name: address.format(secret)}, shown)
        assert not shown.holds(secret), (option.name, shown.holds(secret))
        problems = one.declared.problems({**one.given, name: address.format(secret)}, owner=side)
        assert any("holds credentials" in problem.message for problem in problems), option.name
    assert tried


def test_where_an_address_holds_one():
    for address in ADDRESSES:
        assert "cXnXrX7" in credentials_in(address.format("cXnXrX7"))
        assert "c%23X" in credentials_in(address.format("c%23X")) and "c#X" in credentials_in(address.format("c%23X"))
    for plain in ("https://host/x?y=1", "abfss://container@account/x", "SELECT a FROM b WHERE token = 7", "a;b=c"):
        assert credentials_in(plain) == []


PIPELINE = """
name: p
source: {{format: {source}, schema: "key string, value string", options: {options}}}
sink:
  format: jdbc.x
  options: {{path: "x://u:{address}@host", url: "jdbc:x://h?password={address}", t.password: {secret}}}
checkpoint: c
spark: {{spark.hadoop.fs.azure.account.key.x: {secret}, spark.hadoop.fs.s3a.secret.key: "{secret}"}}
"""


def echoes(secret):
    """What a client that repeats its settings in an error may write."""
    yield from (secret, repr({"password": secret}), json.dumps({"p": secret}), quote(secret), f"https://u:{secret}@h")


@pytest.mark.parametrize("side", [side for side in SIDES if side.endswith("source")])
@pytest.mark.parametrize("display", ["plain", "json", "live"])
def test_the_command_prints_no_secret(side, display, tmp_path, monkeypatch, capsys):
    """Check, the progress and the errors of a run, and the page that is drawn of them."""
    one, path = cases(side), tmp_path / "p.yaml"
    options = {**one.given, **dict.fromkeys(secrets_of(one.declared), CANARY)}
    texts = {"source": f"penstock.{side.partition(' ')[0]}", "options": json.dumps(options), "address": IN_ADDRESSES}
    text = PIPELINE.format(**texts, secret=json.dumps(CANARY)[1:-1]).replace(f": {CANARY}", f': "{CANARY}"')
    path.write_text(text)
    assert run(path, RunChoices(display, check_only=True)) in (0, 2)
    pipeline, _ = run_module.check_pipeline(path)
    assert pipeline is not None
    monkeypatch.setattr(run_module, "check_pipeline", lambda path: (pipeline, []))
    assert run(path, RunChoices(display, check_only=True)) == 0
    for echo in (*echoes(CANARY), *echoes(IN_ADDRESSES)):

        def fail(self, echo=echo):
            self._reporter.line(self._redact(echo))
            try:
                raise ValueError(f"inner {echo}")
            except ValueError as error:
                raise RuntimeError(f"client refused {echo}") from error

        monkeypatch.setattr(run_module._Run, "_start", fail)
        for verbose in (False, True):
            assert run(path, RunChoices(display, verbose=verbose)) == 1
        captured = capsys.readouterr()
        shown = captured.out + captured.err
        assert "refused" in shown
        if display == "json":
            lines = [line for line in captured.out.splitlines() if line.startswith("{")]
            shown += page(read_run(lines), "p")
        assert not [form for form in forms(CANARY) | {IN_ADDRESSES} if form in shown], shown


@pytest.mark.parametrize("side", [side for side in SIDES if side.endswith("source")])
def test_describe_with_options_shows_no_secret(side, monkeypatch, capsys):
    """With a mistake beside them, and where the read can't even begin."""
    one, name = cases(side), side.partition(" ")[0]
    for extra in ({}, {"noSuchOption": "1"}, {option.name: "?" for option in one.declared if option.kind == "int"}):
        secrets = dict.fromkeys(secrets_of(one.declared), CANARY)
        arguments = [f"-o{option}={text}" for option, text in {**one.given, **extra, **secrets}.items()]
        monkeypatch.setattr("sys.argv", ["penstock", "describe", name, *arguments, "--filter", "nothing = 1"])
        monkeypatch.setattr(type(one.make(one.declared.parse(one.given, owner="x"))), "infer_schema", _no_server)
        with pytest.raises(SystemExit):
            _app.main()
        captured = capsys.readouterr()
        assert captured.err and not [form for form in forms(CANARY) if form in captured.out + captured.err]


def _no_server(self):
    raise PenstockError("no server is here")


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidToken", "SlowDown", "NoSuchKey"])
def test_a_store_that_repeats_what_it_was_sent(code):
    """The errors of S3, and the ones that they come of, which a traceback shows as well."""
    settings = {"endpoint": "http://127.0.0.1:9", "key": f"{CANARY}k", "secret": f"{CANARY}s", "token": f"{CANARY}t"}
    storage = S3Storage(settings)
    with Stubber(storage.client) as stubber:
        stubber.add_client_error("get_object", code, f"the key {CANARY}k and the token '{CANARY}t' are not known")
        with pytest.raises((OSError, PenstockError)) as caught:
            storage.read("bucket/x")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_nothing_is_hidden_that_is_no_secret(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(
        "{source: {format: rate}, sink: {format: console, options: {path: s3://bucket/out}}, checkpoint: c, "
        "spark: {spark.sql.shuffle.partitions: '2000'}}"
    )
    pipeline, _ = run_module.check_pipeline(path)
    assert redactor_of(pipeline)("2000 rows to s3://bucket/out") == "2000 rows to s3://bucket/out"
