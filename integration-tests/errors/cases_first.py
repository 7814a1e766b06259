"""First cases."""

from __future__ import annotations

from errors.case import Case

CSV = {"in/a.csv": "id,name\n1,one\n2,two\n"}


def at(path: str) -> str:
    return path if "://" in path or path.startswith("/") else "{tmp}/" + path


def read(options: str, path: str = "in", schema: str = "id int, name string", act: str = "count()") -> str:
    made = f".schema('{schema}')" if schema else ""
    return f"spark.read.format('penstock.filesystem').option('format', 'csv').option('header', 'true'){options}{made}.load('{at(path)}').{act}"


def stream(
    options: str = "", path: str = "in", sink: str = ".option('format', 'parquet').option('path', '{tmp}/out')"
) -> str:
    return (
        "rows = spark.readStream.format('penstock.filesystem').option('format', 'csv').option('header', 'true')"
        f"{options}.schema('id int, name string').load('{at(path)}')\n"
        f"q = rows.writeStream.format('penstock.filesystem'){sink}.option('checkpointLocation', '{{tmp}}/ck')"
        ".trigger(availableNow=True).start()\nq.awaitTermination()\n"
    )


CASES = [
    # missing input
    Case("files-missing-dir", "python", read("", "nowhere"), ["nowhere", "does not exist"], files=CSV),
    Case("files-missing-dir-noschema", "python", read("", "nowhere", ""), ["nowhere", "does not exist"], files=CSV),
    Case("files-missing-glob", "python", read("", "in/*.json"), [r"in/\*\.json", "matches nothing"], files=CSV),
    Case(
        "files-missing-one-of-two",
        "python",
        "spark.read.format('penstock.filesystem').option('format','csv').option('paths','[\"{tmp}/in\",\"{tmp}/nowhere\"]').schema('id int').load().count()",
        ["nowhere", "does not exist"],
        files=CSV,
    ),
    Case("files-missing-scheme", "python", read("", "ftp://host/in"), ["ftp", "known"]),
    Case(
        "files-missing-scheme-secret",
        "python",
        read("", "ftp://bob:' + SECRET + '@host/in"),
        ["ftp", "known"],
        hidden=["hunter2"],
    ),
    Case("files-stream-missing-dir", "python", stream(path="nowhere"), ["nowhere", "does not exist"]),
    Case("files-stream-scheme", "python", stream(path="ftp://bob:' + SECRET + '@host/in"), ["ftp"], hidden=["hunter2"]),
    Case(
        "files-sink-scheme",
        "python",
        "spark.range(3).write.format('penstock.filesystem').mode('append').save('ftp://u:' + SECRET + '@h/x')",
        ["ftp"],
        hidden=["hunter2"],
    ),
    Case(
        "files-typo-option",
        "python",
        read(".option('maxFilesPerTriger', '3')"),
        ["maxFilesPerTriger", "did you mean"],
        files=CSV,
    ),
    Case(
        "files-bad-value",
        "python",
        read(".option('ignoreCorruptFiles', 'maybe')"),
        ["ignoreCorruptFiles", "maybe"],
        files=CSV,
    ),
    Case(
        "files-no-format",
        "python",
        "spark.read.format('penstock.filesystem').load('{tmp}/in').count()",
        ["format"],
        files=CSV,
    ),
    Case("files-broken-row", "python", read("", schema="id int, name int"), ["a.csv"], files=CSV),
    Case(
        "files-broken-parquet",
        "python",
        "spark.read.format('penstock.filesystem').option('format','parquet').schema('id int').load('{tmp}/in').count()",
        ["x.parquet", "parquet"],
        files={"in/x.parquet": "no parquet at all"},
    ),
    Case(
        "files-overwrite",
        "python",
        "spark.range(3).write.format('penstock.filesystem').mode('overwrite').save('{tmp}/out')",
        ["overwrite|append"],
    ),
    Case(
        "files-unwritable",
        "python",
        "spark.range(3).write.format('penstock.filesystem').mode('append').save('/proc/out')",
        ["/proc/out"],
    ),
    Case(
        "files-is-a-file",
        "python",
        "spark.range(3).write.format('penstock.filesystem').mode('append').save('{tmp}/in/a.csv')",
        ["in/a.csv"],
        files=CSV,
    ),
    Case(
        "files-partitioncolumns",
        "python",
        "spark.range(3).write.format('penstock.filesystem').option('partitionColumns','idd').mode('append').save('{tmp}/out')",
        ["idd", "did you mean|no column"],
    ),
    Case("files-stream-broken-row", "python", stream(), [r"a\.csv"], files={"in/a.csv": "id,name\nx,one\n"}),
    Case(
        "files-stream-bad-option",
        "python",
        stream(".option('maxFilesPerTrigger','none')"),
        ["maxFilesPerTrigger"],
        files=CSV,
    ),
    Case(
        "files-stream-sink-bad-option",
        "python",
        stream(sink=".option('rolloverInterval','soon').option('path','{tmp}/out')"),
        ["rolloverInterval"],
        files=CSV,
    ),
    # servers
    *[
        Case(
            f"kafka-{kind}",
            "python",
            f"spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','{{{kind}}}').option('subscribe','in').option('retryTimeout','1s'){more}.load().count()",
            says,
        )
        for kind, more, says in [
            ("refused", "", ["127.0.0.1", "connection refused|nothing listens"]),
            ("http", "", ["127.0.0.1", "not a Kafka|HTTP"]),
            ("ssh", "", ["127.0.0.1", "not a Kafka|SSH"]),
            ("tls", "", ["127.0.0.1", "TLS"]),
            ("silent", "", ["127.0.0.1", "no answer|does not answer"]),
        ]
    ],
    Case(
        "kafka-noname",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','no.such.host.invalid:9092').option('subscribe','in').option('retryTimeout','1s').load().count()",
        ["no.such.host.invalid", "name|resolve"],
    ),
    Case(
        "kafka-plain-by-tls",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','{kafka}').option('kafka.security.protocol','SSL').option('subscribe','in').option('retryTimeout','1s').load().count()",
        ["127.0.0.1", "plain|TLS"],
        needs=["kafka"],
    ),
    Case(
        "kafka-malformed",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','kafka:port').option('subscribe','in').option('retryTimeout','1s').load().count()",
        ["kafka:port", "host:port"],
    ),
    Case(
        "kafka-userinfo",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','alice:' + SECRET + '@{refused}').option('subscribe','in').option('retryTimeout','1s').load().count()",
        ["kafka.bootstrap.servers", "sasl"],
        hidden=["hunter2"],
    ),
    Case(
        "kafka-no-topic",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','{kafka}').option('subscribe','nope').load().count()",
        ["nope", "does not exist"],
        needs=["kafka"],
    ),
    Case(
        "kafka-no-value",
        "python",
        "spark.range(3).write.format('penstock.kafka').option('kafka.bootstrap.servers','{refused}').option('topic','x').mode('append').save()",
        ["value"],
    ),
    Case(
        "kafka-offsets-json",
        "python",
        "spark.read.format('penstock.kafka').option('kafka.bootstrap.servers','{refused}').option('subscribe','in').option('retryTimeout','1s').option('startingOffsets','{\"in\":').load().count()",
        ["startingOffsets"],
    ),
    *[
        Case(
            f"cassandra-{kind}",
            "python",
            f"spark.read.format('penstock.cassandra').option('host','{host}').option('port','{port}').option('keyspace','k').option('table','t').option('connectTimeout','3s').option('retryTimeout','1s').load().count()",
            says,
        )
        for kind, host, port, says in [
            ("refused", "127.0.0.1", "{refused_port}", ["127.0.0.1", "refused|nothing listens"]),
            ("http", "127.0.0.1", "{http_port}", ["127.0.0.1", "not Cassandra|something else|HTTP"]),
            ("tls", "127.0.0.1", "{tls_port}", ["127.0.0.1", "TLS"]),
            ("silent", "127.0.0.1", "{silent_port}", ["127.0.0.1", "answer"]),
            ("noname", "no.such.host.invalid", "9042", ["no.such.host.invalid", "name|resolve"]),
            ("malformed", "tcp://h", "9042", ["tcp://h", "host"]),
        ]
    ],
    *[
        Case(
            f"pravega-{kind}",
            "python",
            f"spark.read.format('penstock.pravega').option('controller','{uri}').option('stream','s/t').option('retryTimeout','1s').load().count()",
            says,
        )
        for kind, uri, says in [
            ("refused", "tcp://{refused}", ["127.0.0.1", "refused|nothing listens"]),
            ("http", "tcp://{http}", ["127.0.0.1", "not Pravega|something else|HTTP|not a"]),
            ("tls", "tcp://{tls}", ["127.0.0.1", "TLS"]),
            ("noname", "tcp://no.such.host.invalid:9090", ["no.such.host.invalid", "name|resolve"]),
            ("malformed", "tcp://u:' + SECRET + '@h:9090", ["tcp://host:port"]),
        ]
    ],
    *[
        Case(
            f"s3-{kind}",
            "python",
            f"spark.read.format('penstock.filesystem').option('format','csv').schema('id int').option('s3.endpoint','{uri}').option('s3.key','k').option('retryTimeout','1s').option('s3.secret',SECRET).load('s3://bucket/in').count()",
            ["bucket", *says],
            hidden=["hunter2"],
        )
        for kind, uri, says in [
            ("refused", "http://{refused}", ["127.0.0.1", "s3.endpoint", "refused|nothing listens"]),
            ("ssh", "http://{ssh}", ["127.0.0.1", "s3.endpoint"]),
            ("tls", "http://{tls}", ["127.0.0.1", "https"]),
            ("plain-by-tls", "https://{http}", ["127.0.0.1", "http://"]),
            ("noname", "http://no.such.host.invalid", ["no.such.host.invalid", "s3.endpoint", "name|resolve"]),
            ("malformed", "localhost:9000", ["s3.endpoint", "http"]),
        ]
    ],
    # authors and transforms
    Case(
        "foreach-own-error",
        "python",
        "rows = spark.readStream.format('rate').load()\ndef mine(batch, number):\n    raise ValueError('mine at heart')\n"
        "q = rows.writeStream.foreachBatch(mine).option('checkpointLocation','{tmp}/ck').trigger(availableNow=True).start()\nq.awaitTermination()",
        ["mine at heart"],
        code=None,
    ),
    # CLI
    Case("cli-inspect-nothing", "cli", ["inspect", "nowhere"], ["nowhere"], 2),
    Case("cli-finish-nothing", "cli", ["finish", "nowhere"], ["nowhere"], 2),
    Case("cli-run-nothing", "cli", ["run", "nowhere.yaml"], ["nowhere.yaml"], 2, code=None),
    Case(
        "cli-dashboard-unwritable",
        "cli",
        ["dashboard", "p.jsonl", "-o", "/proc/x.html"],
        ["/proc/x.html"],
        2,
        files={"p.jsonl": "{}\n"},
    ),
    Case("cli-dashboard-nothing", "cli", ["dashboard", "none.jsonl"], ["none.jsonl"], 2),
    Case("cli-new-unwritable", "cli", ["new", "connector", "notes", "-d", "/proc"], ["/proc"], 2),
    Case(
        "cli-describe-missing",
        "cli",
        ["describe", "filesystem", "-o", "format=csv", "-o", "path=nowhere"],
        ["nowhere"],
        2,
    ),
    Case(
        "cli-describe-s3",
        "cli",
        [
            "describe",
            "filesystem",
            "-o",
            "format=csv",
            "-o",
            "s3.endpoint=http://{refused}",
            "-o",
            "s3.key=k",
            "-o",
            "s3.secret=hunter2",
            "-o",
            "path=s3://bucket/in",
        ],
        ["bucket", "s3.endpoint"],
        1,
        hidden=["hunter2"],
    ),
    Case("cli-describe-unknown", "cli", ["describe", "kafkaa"], ["kafkaa"], 2),
    Case("cli-unknown-command", "cli", ["rum"], ["rum"], 2, code=None),
    Case("cli-restore-nothing", "cli", ["restore-offsets", "nowhere"], ["nowhere"], 2),
    Case("cli-adopt-nothing", "cli", ["adopt", "nowhere", "--moved"], ["nowhere"], 2),
    Case("cli-resolve-nothing", "cli", ["resolve", "nowhere", "--drop-lost"], ["nowhere"], 2),
    Case("cli-inspect-scheme", "cli", ["inspect", "ftp://u:hunter2@h/x"], ["ftp"], 2, hidden=["hunter2"]),
    Case(
        "cli-tx-refused",
        "cli",
        ["kafka", "transactions", "list", "--bootstrap-servers", "{refused}"],
        ["127.0.0.1", "refused"],
        1,
    ),
    Case(
        "cli-tx-userinfo",
        "cli",
        ["kafka", "transactions", "list", "--bootstrap-servers", "a:hunter2@{refused}"],
        ["sasl"],
        2,
        hidden=["hunter2"],
    ),
    # damaged checkpoints
    *[
        Case(
            f"ck-{what}-{surface}",
            "python" if surface == "query" else "cli",
            stream() if surface == "query" else [surface, "{tmp}/ck"],
            says,
            prepare=stream() + damage,
            files=CSV,
            exit_code=None if surface == "query" else (2 if False else None),
        )
        for what, damage, says in [
            (
                "decision-cut",
                "import glob\np = sorted(glob.glob('{tmp}/ck/penstock/decisions/*.json'))[-1]\nd = open(p).read()\nopen(p, 'w').write(d[:len(d)//2])\n",
                [r"decisions/\d+\.json", "damaged"],
            ),
            (
                "offset-cut",
                "p = '{tmp}/ck/offsets/0'\nd = open(p).read()\nopen(p, 'w').write(d[:len(d) - 60])\nimport os\nos.path.exists('{tmp}/ck/offsets/.0.crc') and os.remove('{tmp}/ck/offsets/.0.crc')\n",
                [r"offsets/0", "damaged|cut"],
            ),
            (
                "offset-empty",
                "open('{tmp}/ck/offsets/0', 'w').close()\nimport os\nos.path.exists('{tmp}/ck/offsets/.0.crc') and os.remove('{tmp}/ck/offsets/.0.crc')\n",
                [r"offsets/0", "damaged|empty"],
            ),
            (
                "metadata-cut",
                "open('{tmp}/ck/metadata', 'w').write('{\"id\":')\nimport os\nos.path.exists('{tmp}/ck/.metadata.crc') and os.remove('{tmp}/ck/.metadata.crc')\n",
                [r"ck/metadata", "damaged"],
            ),
            ("place-cut", "open('{tmp}/ck/penstock/place.json', 'w').write('{\"pl')\n", [r"place\.json", "damaged"]),
            (
                "copied",
                "import shutil\nshutil.copytree('{tmp}/ck','ck2')\nshutil.rmtree('{tmp}/ck')\nshutil.copytree('ck2', '{tmp}/ck')\n",
                [],
            ),
        ]
        for surface in ("query", "inspect", "finish")
        if what != "copied"
    ],
]
