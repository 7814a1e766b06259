"""A server that wants to know who one is: the controller by a password, segment stores by its tokens."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from penstock.dev import LocalServer
from penstock.errors import BadConfigurationError
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox
from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions
from penstock_pravega.protocol import (
    Controller,
    ControllerSettings,
    Credentials,
    SegmentAppender,
    SegmentStores,
    segment_name,
    stream_name,
)

USER, PASSWORD = "anna", "1111_aaaa"


def accounts(folder: Path) -> None:
    """One user who may do everything; PBKDF2 as the server's own tool writes it."""
    salt = os.urandom(32)
    hashed = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 5000, 64)
    stored = f"5000:{salt.hex()}:{hashed.hex()}".encode().hex()
    (folder / "passwd").write_text(f"{USER}:{stored}:prn::*,READ_UPDATE\n")


class SecuredServer(PravegaDevServer):
    """Is asked whether it is there by someone it knows."""

    def __init__(self, folder: Path) -> None:
        prefix = "singlenode.security"
        super().__init__(
            {
                f"{prefix}.auth.enable": "true",
                f"{prefix}.auth.credentials.username": USER,
                f"{prefix}.auth.credentials.pwd": PASSWORD,
                f"{prefix}.auth.pwdAuthHandler.accountsDb.location": str(folder / "passwd"),
            }
        )

    def check(self, address, timeout_s):
        controller = Controller(settings(address, timeout_s=timeout_s, tries=1))
        try:
            controller.list_scopes()
        finally:
            controller.close()

    def warm_up(self, address):
        pass


def settings(address, password=PASSWORD, **more):
    return ControllerSettings(address, Credentials.basic(USER, password), **{"tries": 2, "timeout_s": 10, **more})


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    accounts(folder)
    with LocalServer(SecuredServer(folder), folder / "server") as server:
        yield server.address


@pytest.fixture(scope="module")
def toolbox(secured):
    toolbox = PravegaToolbox(secured, settings=settings(secured))
    yield toolbox
    toolbox.close()


def test_read_and_written(toolbox, secured):
    stream = toolbox.create_stream(segments=2)
    toolbox.write(stream, [(f"k{n}", b"%d" % n) for n in range(100)])
    assert sorted(toolbox.values(stream)) == sorted(b"%d" % n for n in range(100))


def test_a_transaction(toolbox):
    stream = toolbox.create_stream()
    number, _ = toolbox.controller.begin_transaction(toolbox.scope, stream, 10_000)
    assert toolbox.controller.commit_transaction(toolbox.scope, stream, number)


def test_options_lead_there(toolbox, secured):
    given = {"controller": secured, "scope": toolbox.scope, "stream": "s"}
    given |= {"credentials.username": USER, "credentials.password": PASSWORD}
    options = SourceOptions.from_values(SOURCE_OPTIONS.parse(given, owner="test"))
    controller = Controller(options.connection)
    assert not controller.create_scope(toolbox.scope)
    controller.close()
    assert PASSWORD not in repr(options) and options.connection.credentials.token not in repr(options)


def test_a_wrong_password_is_refused(secured):
    controller = Controller(settings(secured, password="wrong"))
    with pytest.raises(BadConfigurationError, match="refuses"):
        controller.create_scope("nobody")
    controller.close()


def test_nobody_is_refused(secured):
    controller = Controller(ControllerSettings(secured, None, tries=2))
    with pytest.raises(BadConfigurationError, match="refuses"):
        controller.create_scope("nobody")
    controller.close()


def test_appends_with_a_wrong_token_are_refused(toolbox):
    stream = toolbox.create_stream()
    full = stream_name(toolbox.scope, stream)
    stores = SegmentStores(toolbox.settings)
    stores._tokens[full] = "nonsense"
    appender = SegmentAppender(stores, full, 0, segment_name(full, 0))
    appender.append(b"\0\0\0\0\0\0\0\1a", 1)  # the wrong token is given up and another one asked for
    appender.flush()
    appender.close()
    assert toolbox.values(stream) == [b"a"]
    assert stores.token(full) not in ("", "nonsense")
    stores.close()
