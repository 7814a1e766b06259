"""A Kerberos KDC for tests: MIT's, as Debian's ``krb5-kdc`` installs it, with its own realm and port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from penstock.dev import free_ports

__all__ = ["REALM", "Kdc", "is_installed"]

REALM = "PENSTOCK.TEST"
_NEEDED = ("krb5kdc", "kdb5_util", "kadmin.local")
#: Where Debian has programs of the administrator.
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


def is_installed() -> bool:
    """Returns whether a KDC can be started here."""
    return all(shutil.which(name, path=_PATH) for name in _NEEDED)


class Kdc:
    """Runs while it is entered, with its data in ``folder``. ``config`` is the ``krb5.conf`` for clients."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.config = folder / "krb5.conf"
        (self._port,) = free_ports(1)
        self._environment = {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }

    def __enter__(self) -> Kdc:
        address, folder = f"127.0.0.1:{self._port}", self._folder
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" rdns = false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f" default_ccache_name = FILE:{folder}/cc\n"
            f"[realms]\n {REALM} = {{\n  kdc = {address}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
            f"  acl_file = {folder}/acl\n  max_life = 1h\n }}\n[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        program = shutil.which("krb5kdc", path=_PATH)
        assert program is not None
        self._process = subprocess.Popen([program, "-n"], env=self._environment, stderr=subprocess.PIPE)
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return self
            except OSError:
                assert time.monotonic() < until and self._process.poll() is None, "the KDC does not start"
                time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.communicate(timeout=10)

    def keytab(self, principal: str) -> Path:
        """Adds a principal, and returns a key tab with its keys."""
        path = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "addprinc", "-randkey", principal)
        self._run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def change_key(self, principal: str) -> None:
        """Gives a principal other keys: its key tabs are of no use any more."""
        self._run("kadmin.local", "cpw", "-randkey", principal)

    def _run(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=_PATH)
        assert program is not None
        done = subprocess.run(
            [program, *arguments], env=self._environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
