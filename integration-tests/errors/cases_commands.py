"""Commands that are called with paths, addresses, names and checkpoints that are wrong."""

from __future__ import annotations

import json

from errors.case import Case

__all__ = ["CASES"]

_CHECKPOINT_COMMANDS = {
    "inspect": ["inspect"],
    "finish": ["finish"],
    "take-over": ["finish", "--take-over"],
    "resolve": ["resolve", "--drop-lost"],
    "restore": ["restore-offsets"],
    "adopt": ["adopt", "--moved"],
    "replay": ["replay"],
}
_SECRET = "hunter2"
_PROGRESS = json.dumps({"state": "finished", "rows": 0, "batches": 0, "commits": 0}) + "\n"


def _checkpoints() -> list[Case]:
    found = []
    for name, words in _CHECKPOINT_COMMANDS.items():
        of_s3 = ["-o", "s3.key=k", "-o", f"s3.secret={_SECRET}"]
        found += [
            Case(f"command-{name}-nowhere", "cli", [*words, "{tmp}/nowhere"], ["nowhere", "checkpoint"], 2),
            Case(
                f"command-{name}-a-file", "cli", [*words, "{tmp}/a"], ["/a", "checkpoint|directory"], files={"a": "x"}
            ),
            Case(f"command-{name}-scheme", "cli", [*words, "ftp://host/ck"], ["ftp://", "known"], 2),
            Case(f"command-{name}-password", "cli", [*words, f"ftp://u:{_SECRET}@h/ck"], ["ftp"], 2, hidden=[_SECRET]),
            Case(f"command-{name}-bucketless", "cli", [*words, "s3:///ck"], ["s3:///ck", "s3://bucket"], 2),
            Case(
                f"command-{name}-endpoint",
                "cli",
                [*words, "s3://b/ck", *of_s3, "-o", "s3.endpoint=localhost:9000"],
                ["s3.endpoint", "http://host:port"],
                2,
                hidden=[_SECRET],
            ),
            Case(f"command-{name}-option", "cli", [*words, "{tmp}/nowhere", "-o", "s3.key"], ["s3.key"], 2, code=None),
        ]
    return found


def _stores() -> list[Case]:
    read = ["describe", "filesystem", "-o", "format=csv", "-o", "retryTimeout=1s"]
    keys = ["-o", "s3.key=k", "-o", f"s3.secret={_SECRET}", "-o", "path=s3://bucket/in"]
    of_s3 = {
        "refused": ("http://{refused}", ["127.0.0.1", "refused"]),
        "tls": ("http://{tls}", ["127.0.0.1", "https://"]),
        "plain": ("https://{http}", ["127.0.0.1", "http://"]),
        "noname": ("http://no.such.host.invalid", ["no.such.host.invalid", "resolve"]),
        "ssh": ("http://{ssh}", ["127.0.0.1", "SSH"]),
    }
    return [
        Case(
            f"store-s3-{name}",
            "cli",
            [*read, *keys, "-o", f"s3.endpoint={endpoint}"],
            ["bucket", "s3.endpoint", *says],
            hidden=[_SECRET],
            waits=True,
        )
        for name, (endpoint, says) in of_s3.items()
    ]


def _servers() -> list[Case]:
    kinds = {
        "refused": (["127.0.0.1", "refused"], ["kafka.bootstrap.servers", "host and port", "controller"]),
        "tls": (["127.0.0.1", "speaks TLS"], ["kafka.security.protocol", "tls", "tls://"]),
        "http": (["127.0.0.1", "HTTP server"], ["kafka.bootstrap.servers", "host and port", "controller"]),
        "ssh": (["127.0.0.1", "SSH"], ["kafka.bootstrap.servers", "host and port", "controller"]),
    }
    found = []
    for kind, (says, remedies) in kinds.items():
        kafka = ["-o", f"kafka.bootstrap.servers={{{kind}}}", "-o", "subscribe=orders"]
        cassandra = ["-o", f"port={{{kind}_port}}", "-o", "keyspace=k", "-o", "table=t", "-o", "connectTimeout=3s"]
        pravega = ["-o", f"controller=tcp://{{{kind}}}", "-o", "stream=s/t"]
        for name, options, remedy in zip(
            ("kafka", "cassandra", "pravega"), (kafka, cassandra, pravega), remedies, strict=True
        ):
            if name == "kafka":
                # Its columns are known without a broker.
                words = ["kafka", "transactions", "list", "--bootstrap-servers", f"{{{kind}}}"]
            else:
                words = ["describe", name, *options, "-o", "retryTimeout=1s"]
            if name == "pravega":
                continue  # as Kafka's, and no command asks the controller
            found.append(Case(f"server-{name}-{kind}", "cli", words, [*says, remedy], waits=True))
    noname = "no.such.host.invalid"
    transactions = ["kafka", "transactions", "list", "--bootstrap-servers"]
    found += [
        Case("server-kafka-noname", "cli", [*transactions, f"{noname}:9092"], [noname, "resolve"], 1,
             waits=True),
        Case("server-kafka-port", "cli", [*transactions, "host:port"], ["host:port", "bootstrap.servers"], 2),
        Case("server-kafka-user", "cli", [*transactions, f"u:{_SECRET}@h:1"], ["sasl"], 2, hidden=[_SECRET]),
        Case("server-kafka-tls-at-plain", "cli", [*transactions, "{http}", "-o", "kafka.security.protocol=SSL"],
             ["127.0.0.1", "does not speak TLS"], 2, waits=True),
        Case("server-kafka-no-brokers", "cli", ["kafka", "transactions", "list"], ["--bootstrap-servers"], 2),
        Case("server-kafka-abort-nothing", "cli", [*transactions[:2], "abort", "x"], ["--bootstrap-servers"], 2),
    ]  # fmt: skip
    of_cassandra = ["describe", "cassandra", "-o", "keyspace=k", "-o", "table=t", "-o", "connectTimeout=3s"]
    found += [
        Case("server-cassandra-noname", "cli", [*of_cassandra, "-o", f"host={noname}"], [noname, "resolve"]),
        Case("server-cassandra-url", "cli", [*of_cassandra, "-o", "host=tcp://h"], ["host", "port"], 2),
        Case("server-cassandra-user", "cli", [*of_cassandra, "-o", f"host=u:{_SECRET}@h"], ["host", "user"], 2,
             hidden=[_SECRET]),
        Case("server-cassandra-tls-at-plain", "cli", [*of_cassandra, "-o", "port={http_port}", "-o", "tls=true"],
             ["127.0.0.1", "does not speak TLS"]),
        Case("server-cassandra-ca", "cli", [*of_cassandra, "-o", "tls=true", "-o", "tls.caFile={tmp}/no.pem"],
             ["no.pem", "tls.caFile"], 2),
        Case("server-cassandra-empty", "cli", [*of_cassandra, "-o", "host=,"], ["host", "node"], 2),
        Case("server-pravega-malformed", "cli", ["describe", "pravega", "-o", "controller=h", "-o", "stream=s/t"],
             ["tcp://host:port"], 2),
        Case("server-pravega-user", "cli",
             ["describe", "pravega", "-o", f"controller=tcp://u:{_SECRET}@h:1", "-o", "stream=s/t"],
             ["controller"], 2, hidden=[_SECRET]),
        Case("server-pravega-scope", "cli", ["describe", "pravega", "-o", "controller=tcp://h:1", "-o", "stream=t"],
             ["stream", "scope"], 2),
    ]  # fmt: skip
    return found


def _files() -> list[Case]:
    read = ["describe", "filesystem", "-o", "format=csv"]
    return [
        Case("input-missing", "cli", [*read, "-o", "path={tmp}/in"], ["/in", "does not exist", "correct the path"], 2),
        Case("input-glob", "cli", [*read, "-o", "path={tmp}/*.csv"], [r"\*\.csv", "matches nothing"], 2),
        Case("input-one-of-two", "cli", [*read, "-o", 'paths=["{tmp}/a", "{tmp}/b"]'], ["/b", "does not exist"], 2,
             files={"a/x.csv": ""}),
        Case("input-empty", "cli", [*read, "-o", "path={tmp}/a"], ["/a", "schema"], 2, files={"a/x.csv": ""}),
        Case("input-nul", "cli", [*read, "-o", "path=a\0b"], ["NUL"], 2),
        Case("input-scheme", "cli", [*read, "-o", "path=sftp://host/in"], ["sftp", "known"], 2),
        Case("input-no-path", "cli", read, ["path"], 2),
        Case("input-two-stores", "cli", [*read, "-o", 'paths=["{tmp}/a", "s3://b/a"]'], ["same file system"], 2),
        Case("input-paths-form", "cli", [*read, "-o", "paths=a,b"], ["paths", "JSON"], 2),
        Case("input-format", "cli", ["describe", "filesystem", "-o", "format=xls", "-o", "path={tmp}"],
             ["format", "xls"], 2),
        Case("input-glob-open", "cli", [*read, "-o", "path={tmp}/[a"], [r"\[a"], 2),
    ]  # fmt: skip


def _commands() -> list[Case]:
    return [
        Case("command-run-nothing", "cli", ["run", "{tmp}/no.yaml"], [r"no\.yaml", "No such file"], 2),
        Case("command-run-directory", "cli", ["run", "{tmp}"], ["directory"], 2),
        Case("command-run-binary", "cli", ["run", "{tmp}/b.yaml"], [r"b\.yaml"], 2, files={"b.yaml": b"\xff\xfe\x00"}),
        Case("command-run-empty", "cli", ["run", "{tmp}/e.yaml"], [r"e\.yaml"], 2, files={"e.yaml": ""}),
        Case("command-run-tab", "cli", ["run", "{tmp}/t.yaml"], [r"t\.yaml:\d+"], 2, files={"t.yaml": "a:\n\tb: 1\n"}),
        Case("command-run-brace", "cli", ["run", "{tmp}/t.yaml"], [r"t\.yaml:\d+"], 2, files={"t.yaml": "a: {b: 1\n"}),
        Case("command-run-metrics", "cli", ["run", "x.yaml", "--metrics", "99999"], ["--metrics", "HOST:PORT"], 2),
        Case("command-dashboard-nothing", "cli", ["dashboard", "{tmp}/no.jsonl"], [r"no\.jsonl", "No such file"], 2),
        Case("command-dashboard-directory", "cli", ["dashboard", "{tmp}"], ["directory"], 2),
        Case("command-dashboard-no-lines", "cli", ["dashboard", "{tmp}/p"], ["line 1", "penstock run --json"], 2,
             files={"p": "hello\n"}),
        Case("command-dashboard-unwritable", "cli", ["dashboard", "{tmp}/p", "-o", "/proc/x.html"],
             ["/proc/x.html", "correct the path"], 1, files={"p": _PROGRESS}),
        Case("command-dashboard-to-directory", "cli", ["dashboard", "{tmp}/p", "-o", "{tmp}"],
             ["directory"], 1, files={"p": _PROGRESS}),
        Case("command-dashboard-to-nowhere", "cli", ["dashboard", "{tmp}/p", "-o", "{tmp}/no/x.html"],
             ["no/x.html", "create it"], 1, files={"p": _PROGRESS}),
        Case("command-new-unwritable", "cli", ["new", "sink", "notes", "-d", "/proc"], ["/proc/penstock-notes"], 1),
        Case("command-new-in-a-file", "cli", ["new", "sink", "notes", "-d", "{tmp}/f"], ["/f/"], 1, files={"f": ""}),
        Case("command-new-name", "cli", ["new", "source", "No Name"], ["No Name", "small letters"], 2),
        Case("command-new-taken", "cli", ["new", "source", "kafka"], ["penstock.kafka", "another name"], 2),
        Case("command-new-there", "cli", ["new", "source", "notes", "-d", "{tmp}"], ["is there already"], 2,
             files={"penstock-notes/x": ""}),
        Case("command-describe-unknown", "cli", ["describe", "kafkaa"], ["kafkaa", "did you mean 'kafka'"], 2),
        Case("command-describe-far", "cli", ["describe", "oracle"], ["oracle", "pip install"], 2),
        Case("command-describe-filter", "cli", ["describe", "kafka", "-o", "kafka.bootstrap.servers=h:1", "-o",
             "subscribe=a", "--filter", "offset ~ 3"], ["--filter", "COLUMN = VALUE"], 2),
        Case("command-describe-column", "cli", ["describe", "kafka", "-o", "kafka.bootstrap.servers=h:1", "-o",
             "subscribe=a", "--filter", "ofset > 3"], ["ofset", "did you mean"], 2),
        Case("command-describe-value", "cli", ["describe", "kafka", "-o", "kafka.bootstrap.servers=h:1", "-o",
             "subscribe=a", "--filter", "offset > many"], ["many", "offset"], 2),
        Case("command-unknown", "cli", ["rum"], ["rum", "run"], 2, code=None),
        Case("command-flag", "cli", ["run", "--chek", "x"], ["--chek", "--check"], 2, code=None),
        Case("command-argument", "cli", ["inspect"], ["CHECKPOINT"], 2, code=None),
        Case("command-dev-unknown", "cli", ["dev", "up", "kafkaa"], ["kafkaa"], 2),
        Case("command-dev-none", "cli", ["dev", "up", "filesystem"], ["filesystem", "development server"], 2),
        Case("command-explain-unknown", "cli", ["explain", "PENSTOCK-KAFKA-998"], ["PENSTOCK-KAFKA-998"], 2),
        Case("command-explain-form", "cli", ["explain", "nonsense"], ["nonsense", "PENSTOCK-KAFKA-001"], 2),
        Case("command-resolve-both", "cli", ["resolve", "ck", "--drop-lost", "--write-all-again"], ["choose one"], 2),
        Case("command-adopt-neither", "cli", ["adopt", "ck"], ["choose one", "--moved"], 2),
    ]  # fmt: skip


CASES = [*_checkpoints(), *_stores(), *_servers(), *_files(), *_commands()]
