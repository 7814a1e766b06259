"""Scripts of PySpark whose batches and streams fail: at their inputs, servers, checkpoints, and in own functions."""

from __future__ import annotations

from errors.case import Case

__all__ = ["CASES"]

_CSV: dict[str, str | bytes] = {"in/a.csv": "id,name\n1,one\n2,two\n"}
_SCHEMA = ".schema('id int, name string')"
_NEVER = ".option('retryTimeout', '1s')"


def _options(**given: str) -> str:
    return "".join(f".option('{name.replace('__', '.')}', {text!r})" for name, text in given.items())


def _csv(path: str = "'{tmp}/in'", options: str = "", schema: str = _SCHEMA, reader: str = "read") -> str:
    form = "spark.READER.format('penstock.filesystem').option('format', 'csv').option('header', 'true')"
    return f"{form.replace('READER', reader)}{options}{schema}.load({path})"


def _write(options: str = "", path: str = "'{tmp}/out'", rows: str = "spark.range(3)") -> str:
    return f"{rows}.write.format('penstock.filesystem').mode('append'){options}.save({path})\n"


def _stream(rows: str = "", sink: str = "", checkpoint: str = "{tmp}/ck", end: str = "q.awaitTermination()") -> str:
    rows = rows or _csv(reader="readStream")
    sink = sink or ".format('penstock.filesystem').option('path', '{tmp}/out')"
    start = f".option('checkpointLocation', '{checkpoint}').trigger(availableNow=True).start()"
    return f"q = {rows}.writeStream{sink}{start}\n{end}\n"


def _inputs() -> list[Case]:
    password = "'ftp://u:' + SECRET + '@host/in'"
    hidden = ["hunter2"]
    two = "spark.read.format('penstock.filesystem').option('format', 'csv').option('paths', PATHS)"
    two += ".schema('id int').load().count()"
    failfast = {"options": _options(mode="FAILFAST"), "schema": ".schema('id int, name int')"}
    paths = '\'["{tmp}/in", "{tmp}/nowhere"]\''
    parquet = "spark.read.format('penstock.filesystem').option('format', 'FORMAT').schema('id int').load('{tmp}/in')"
    cases = [
        Case("batch-missing", "python", _csv("'{tmp}/nowhere'") + ".count()", ["nowhere", "does not exist", "correct"]),
        Case("batch-missing-inferred", "python", _csv("'{tmp}/nowhere'", schema=""), ["nowhere", "does not exist"]),
        Case("batch-glob", "python", _csv("'{tmp}/in/*.x'") + ".count()", [r"\*\.x", "matches nothing"], files=_CSV),
        Case("batch-one-of-two", "python", two.replace("PATHS", paths), ["nowhere", "does not exist"], files=_CSV),
        Case("batch-scheme", "python", _csv("'sftp://host/in'") + ".count()", ["sftp", "known"]),
        Case("batch-password", "python", _csv(password) + ".count()", ["path", "credentials"], hidden=hidden),
        Case("batch-format", "python", "spark.read.format('penstock.filesystem').load('{tmp}')", ["needs", "format"]),
        Case("batch-option", "python", _csv(options=_options(maxFilesPerTriger="3")) + ".count()",
             ["maxFilesPerTriger", "did you mean"], files=_CSV),
        Case("batch-value", "python", _csv(options=_options(ignoreCorruptFiles="maybe")) + ".count()",
             ["ignoreCorruptFiles", "maybe"], files=_CSV),
        Case("batch-mode-failfast", "python", _csv(**failfast) + ".collect()", [r"a\.csv", "row"], files=_CSV),
        Case("stream-missing", "python", _stream(_csv("'{tmp}/no'", reader="readStream")), ["/no", "does not exist"]),
        Case("stream-glob", "python", _stream(_csv("'{tmp}/in/*.x'", reader="readStream")),
             [r"\*\.x", "matches nothing"], files=_CSV),
        Case("stream-scheme", "python", _stream(_csv("'sftp://h/in'", reader="readStream")), ["sftp", "known"]),
        Case("stream-password", "python", _stream(_csv(password, reader="readStream")), ["path"], hidden=hidden),
        Case("stream-no-schema", "python", _stream(_csv(schema="", reader="readStream")), ["schema"], files=_CSV),
        Case("stream-option", "python", _stream(_csv(options=_options(maxFilesPerTrigger="x"), reader="readStream")),
             ["maxFilesPerTrigger", "whole number"], files=_CSV),
        Case("stream-mode-failfast", "python", _stream(_csv(reader="readStream", **failfast)), [r"a\.csv", "row"],
             files=_CSV),
    ]  # fmt: skip
    for form in ("parquet", "orc", "avro"):
        says = [rf"x\.{form}", form, "ignoreCorruptFiles"]
        broken: dict[str, str | bytes] = {f"in/x.{form}": "this is nothing of the kind\n" * 9}
        read = parquet.replace("FORMAT", form)
        cases += [
            Case(f"batch-broken-{form}", "python", f"{read}.count()", says, files=broken),
            Case(
                f"stream-broken-{form}", "python", _stream(read.replace(".read.", ".readStream.")), says, files=broken
            ),
        ]
    return cases


def _outputs() -> list[Case]:
    password = "'ftp://u:' + SECRET + '@host/out'"
    hidden = ["hunter2"]
    return [
        Case("write-overwrite", "python", _write().replace("append", "overwrite"), ["overwrite", "append"]),
        Case("write-unwritable", "python", _write(path="'/proc/out'"), ["/proc/out", "correct the path|another path"]),
        Case("write-on-a-file", "python", _write(path="'{tmp}/in/a.csv'"), [r"a\.csv", "another path"], files=_CSV),
        Case("write-scheme", "python", _write(path="'sftp://h/out'"), ["sftp", "known"]),
        Case("write-password", "python", _write(path=password), ["path"], hidden=hidden),
        Case("write-partition", "python", _write(_options(partitionColumns="idd")), ["partitionColumns", "idd", "id"]),
        Case("write-assigner", "python", _write(_options(bucketAssigner="no:where")), ["bucketAssigner", "no:where"]),
        Case("write-option", "python", _write(_options(rolloverIntervall="1s")), ["rolloverIntervall", "did you mean"]),
        Case("write-compression", "python", _write(_options(compression="rar")), ["compression", "rar"]),
        Case("write-text", "python", _write(_options(format="text")), ["text", "string"]),
        Case("stream-to-unwritable", "python",
             _stream(sink=".format('penstock.filesystem').option('path', '/proc/out')"), ["/proc/out"], files=_CSV),
        Case("stream-to-option", "python", _stream(
            sink=".format('penstock.filesystem').option('path', '{tmp}/out').option('rolloverInterval', 'soon')"),
             ["rolloverInterval", "soon"], files=_CSV),
        Case("stream-to-mode", "python", _stream(
            sink=".format('penstock.filesystem').option('path', '{tmp}/out').outputMode('update')"),
             ["update", "batch_writer"], files=_CSV),
        Case("stream-to-kafka-without-value", "python", _stream(
            sink=".format('penstock.kafka').option('kafka.bootstrap.servers', '{refused}').option('topic', 'x')"),
             ["value", "id, name"], files=_CSV),
    ]  # fmt: skip


def _servers() -> list[Case]:
    kafka = "spark.READER.format('penstock.kafka').option('kafka.bootstrap.servers', ADDRESS).option('subscribe', 'a')"
    cassandra = "spark.read.format('penstock.cassandra').option('keyspace', 'k').option('table', 't')"
    cassandra += _NEVER + ".option('connectTimeout', '3s')"
    pravega = "spark.READER.format('penstock.pravega').option('controller', ADDRESS).option('stream', 's/t')"
    noname = "no.such.host.invalid"
    wrong = {
        "refused": ["refused"],
        "tls": ["speaks TLS"],
        "http": ["HTTP server"],
        "ssh": ["SSH"],
        "silent": ["answer"],
    }
    cases = []
    for kind, says in wrong.items():
        at = ["127.0.0.1", *says]
        by_kafka = kafka.replace("ADDRESS", f"'{{{kind}}}'") + _NEVER
        by_pravega = pravega.replace("ADDRESS", f"'tcp://{{{kind}}}'") + _NEVER
        cases.append(Case(f"kafka-{kind}", "python", by_kafka.replace("READER", "read") + ".load().count()", at))
        if kind != "silent":
            streamed = _stream(by_kafka.replace("READER", "readStream") + ".load()")
            cases += [
                Case(f"kafka-stream-{kind}", "python", streamed, at),
                Case(
                    f"cassandra-{kind}", "python", f"{cassandra}{_NEVER}.option('port', '{{{kind}_port}}').load()", at
                ),
                Case(f"pravega-{kind}", "python", by_pravega.replace("READER", "read") + ".load().count()", at),
            ]
    named = kafka.replace("READER", "read").replace("ADDRESS", f"'{noname}:9092'") + _NEVER
    hidden = ["hunter2"]
    user = kafka.replace("READER", "read").replace("ADDRESS", "'u:' + SECRET + '@h:9092'")
    tls = kafka.replace("READER", "read").replace("ADDRESS", "'{http}'")
    s3 = "spark.read.format('penstock.filesystem').option('format', 'csv').schema('id int').option('s3.key', 'k')"
    s3 += _NEVER + ".option('s3.secret', SECRET).option('s3.endpoint', 'ENDPOINT').load('s3://bucket/in').count()"
    return [
        *cases,
        Case("kafka-noname", "python", f"{named}.load().count()", [noname, "resolve"]),
        Case("kafka-user", "python", f"{user}.load().count()", ["bootstrap.servers", "sasl"], hidden=hidden),
        Case("kafka-tls-at-plain", "python", f"{tls}.option('kafka.security.protocol', 'SSL').load().count()",
             ["does not speak TLS", "kafka.security.protocol"]),
        Case("kafka-port", "python", f"{tls.replace('{http}', 'h:p')}.load().count()", ["h:p", "host:port"]),
        Case("kafka-offsets", "python", f"{tls}.option('startingOffsets', '[').load().count()", ["startingOffsets"]),
        Case("s3-refused", "python", s3.replace("ENDPOINT", "http://{refused}"), ["bucket", "s3.endpoint", "refused"],
             hidden=hidden),
        Case("s3-tls", "python", s3.replace("ENDPOINT", "http://{tls}"), ["bucket", "s3.endpoint", "https://"],
             hidden=hidden),
        Case("s3-malformed", "python", s3.replace("ENDPOINT", "localhost:9000"), ["s3.endpoint", "http://host:port"],
             hidden=hidden),
    ]  # fmt: skip


_DAMAGE = {
    "decision-cut": ("sorted(glob.glob(CK + '/penstock/decisions/*.json'))[-1]", "half", [r"decisions/\d+\.json"]),
    "decision-empty": ("sorted(glob.glob(CK + '/penstock/decisions/*.json'))[-1]", "empty", [r"decisions/\d+\.json"]),
    "offset-cut": ("CK + '/offsets/0'", "half", ["ck/offsets/0", "restore-offsets|copy|remove"]),
    "offset-empty": ("CK + '/offsets/0'", "empty", ["ck/offsets/0", "restore-offsets|copy|remove"]),
    "offset-binary": ("CK + '/offsets/0'", "binary", ["ck/offsets/0", "restore-offsets|copy|remove"]),
    "commit-cut": ("CK + '/commits/0'", "half", ["ck/commits/0", "remove it"]),
    "metadata-cut": ("CK + '/metadata'", "half", ["ck/metadata"]),
    "place-cut": ("CK + '/penstock/place.json'", "half", [r"place\.json"]),
}
_BREAK = """
import glob, os
CK = '{tmp}/ck'
path = PATH
data = open(path, 'rb').read()
changed = {'half': data[:len(data) // 2], 'empty': b'', 'binary': bytes(range(128, 256))}['HOW']
open(path, 'wb').write(changed)
checksum = os.path.join(os.path.dirname(path), '.' + os.path.basename(path) + '.crc')
if os.path.exists(checksum):
    os.remove(checksum)
"""


def _checkpoints() -> list[Case]:
    written = _stream()
    cases = []
    for name, (path, how, says) in _DAMAGE.items():
        prepare = written + _BREAK.replace("PATH", path).replace("HOW", how)
        says = [*says, "damaged"]
        cases.append(Case(f"checkpoint-{name}-query", "python", _stream(), says, files=_CSV, prepare=prepare))
        for command in ("inspect", "finish"):
            words = [command, "{tmp}/ck"]
            cases.append(Case(f"checkpoint-{name}-{command}", "cli", words, says, 1, files=_CSV, prepare=prepare))
    moved = "import shutil\nshutil.copytree('{tmp}/ck', '{tmp}/copy')\n"
    moved += "shutil.copy('{tmp}/in/a.csv', '{tmp}/in/b.csv')\n"
    of_rate = _stream("spark.readStream.format('rate').load()")
    other = (
        "spark.readStream.format('penstock.pravega').option('controller', 'tcp://{refused}').option('stream', 's/t')"
    )
    return [
        *cases,
        Case("checkpoint-copied-query", "python", _stream(checkpoint="{tmp}/copy"), ["copied or moved", "adopt"],
             files=_CSV, prepare=written + moved),
        Case("checkpoint-copied-finish", "cli", ["finish", "{tmp}/copy"], ["copied or moved", "penstock adopt"], 2,
             files=_CSV, prepare=written + moved),
        Case("checkpoint-of-rate", "python", _stream(), ["another source", "new checkpoint"],
             files=_CSV, prepare=of_rate),
        Case("checkpoint-of-another-connector", "python", _stream(f"{other}{_NEVER}.option('stream', 's/t').load()"),
             ["holds offsets of penstock.filesystem", "new checkpoint"], files=_CSV, prepare=written),
    ]  # fmt: skip


def _functions() -> list[Case]:
    rate = "rows = spark.readStream.format('rate').load()\n"
    batch = (
        f"{rate}def mine(rows, number):\n    raise ValueError('mine at heart')\n"
        "q = rows.writeStream.foreachBatch(mine).option('checkpointLocation', '{tmp}/ck').trigger(availableNow=True)"
        ".start()\nq.awaitTermination()\n"
    )
    udf = (
        "from pyspark.sql.functions import udf\n@udf('long')\ndef mine(value):\n    raise ValueError('mine at heart')\n"
        "spark.range(3).select(mine('id')).collect()\n"
    )
    of_ours = (
        "from penstock.errors import BadDataError\nfrom pyspark.sql.functions import udf\n@udf('long')\n"
        "def mine(value):\n    raise BadDataError('row 3 is bad: correct it')\n"
        "spark.range(3).select(mine('id')).collect()\n"
    )
    assigner = "spark.range(3).write.format('penstock.filesystem').mode('append')"
    assigner += ".option('bucketAssigner', 'buckets:mine').save('{tmp}/out')\n"
    path: dict[str, str | bytes] = {"buckets.py": "def mine(options):\n    raise ValueError('mine at heart')\n"}
    return [
        Case("function-of-batches", "python", batch, ["mine at heart", r"job\.py, line \d+, in mine"]),
        Case("function-of-rows", "python", udf, ["mine at heart", r"job\.py, line \d+, in mine"]),
        Case("function-of-rows-ours", "python", of_ours, ["row 3 is bad: correct it"]),
        Case("function-of-buckets", "python", "import sys\nsys.path.insert(0, '{tmp}')\n" + assigner,
             ["bucketAssigner", "buckets:mine"], files=path),
    ]  # fmt: skip


CASES = [*_inputs(), *_outputs(), *_servers(), *_checkpoints(), *_functions()]
