"""The core's error codes; a connector has its own in its package's module ``_error_codes``.

A code stands for a situation that a person can look up. A number is never used for another one.
"""

from __future__ import annotations

from penstock._error_book import ErrorBook, ErrorCode

__all__ = ["BOOK", "ErrorBook", "ErrorCode"]

#: ``PENSTOCK-CORE-NNN``.
BOOK = ErrorBook("CORE")

# --- general: what has no code of its own -----------------------------------------------------------------------------

BOOK.add(
    1,
    "Something is configured wrongly",
    raised_in=[":BadConfigurationError"],
    causes=["An option, a schema, a file or a package is not what this connector needs; the message names it."],
    remedies=["Change what the message names, and start again.", "Nothing was read or written by then."],
)
BOOK.add(
    2,
    "The input holds what is not accepted",
    raised_in=[":BadDataError"],
    causes=["A file, a record or a row is not as the schema or the format says; the message names its place."],
    remedies=[
        "Correct or remove it.",
        "Choose what happens to such data: `badRecords`, `ignoreCorruptFiles`, `deadLetters.*`.",
    ],
)
BOOK.add(
    3,
    "Rows that were accepted are gone",
    raised_in=[":DataLostError"],
    causes=["Records were dropped before they were read, or staged rows were removed before they were published."],
    remedies=["Restore what the message names.", "Decide as the message says to continue without it."],
)
BOOK.add(
    4,
    "A failure that may pass",
    raised_in=[":RetriableError"],
    causes=["A server did not answer, a connection was lost, or a batch has to be written again."],
    remedies=["Restart the query: it continues where it stopped."],
)
BOOK.add(
    5,
    "A call kept failing for retryTimeout",
    raised_in=[":RetriesExhaustedError"],
    causes=["A system was away, or refused, for longer than the option `retryTimeout`."],
    remedies=["Bring the system back and restart the query.", "Set `retryTimeout` higher for longer outages."],
)
BOOK.add(
    6,
    "A state that Penstock does not expect",
    raised_in=[":FatalError"],
    causes=["A bug in a connector, or a server whose answers do not follow its protocol."],
    remedies=["Update penstock and the connector.", "Report it, with the message and the trace."],
)
BOOK.add(
    7,
    "An error of Penstock's",
    raised_in=[":PenstockError"],
    causes=["A connector raised an error without a class of its own."],
    remedies=["Do as the message says."],
)

# --- options, schemas, columns ----------------------------------------------------------------------------------------

BOOK.add(
    10,
    "An option is missing, unknown or has a wrong value",
    raised_in=["penstock.options"],
    causes=["A typing error in an option's name.", "A value of another kind or unit, or out of its range.",
            "Options that exclude each other, or one that needs another."],
    remedies=["Correct the option that the message names.", "List all options: `penstock describe CONNECTOR`."],
)  # fmt: skip
BOOK.add(
    11,
    "An option differs from the one that the checkpoint was begun with",
    raised_in=["penstock.options._restarts"],
    causes=["An option was changed that decides what the stored positions mean."],
    remedies=["Set the option back.", "Start with a new checkpoint location (docs/production/upgrading.md)."],
)
BOOK.add(
    12,
    "The columns do not fit",
    raised_in=["penstock.sink._columns", "penstock.sink._idempotent", "penstock.sink._changes",
               "penstock.source._columns", "penstock.spark._enrich"],
    causes=["A column that is needed is missing, or has another name or type."],
    remedies=["Rename, cast or add the column in a select before the write, or correct the schema of the read."],
)  # fmt: skip
BOOK.add(
    13,
    "There is no schema",
    raised_in=["penstock.source._contracts"],
    causes=["The source has no columns of its own, and none were given."],
    remedies=["Give the schema: `.schema('id long, at timestamp')`; in a pipeline file, `schema:`."],
)
BOOK.add(
    14,
    "An event time or a watermark is configured wrongly",
    raised_in=["penstock.source.event_time"],
    causes=["The column is missing, or is not a timestamp.", "The strategy's name is unknown or can't be imported."],
    remedies=["Correct the option `watermark.*` that the message names (docs/event-time.md)."],
)
BOOK.add(
    15,
    "The format or Spark's mode is not supported by this connector",
    raised_in=["penstock.spark._data_source", "penstock.spark._statements", "penstock.spark._writers"],
    causes=["An output or save mode that the sink does not have.", "A read or a write that the connector lacks.",
            "Options or clauses that do not reach a table of Spark's catalog."],
    remedies=["Use `.mode('append')`, or `.outputMode('append')`.", "Do as the message says."],
)  # fmt: skip
BOOK.add(
    16,
    "A path has no fixed place",
    raised_in=["penstock.spark._locations"],
    causes=["A relative path over Spark Connect, or with a default file system other than the local one."],
    remedies=["Write the absolute path, with its scheme."],
)
BOOK.add(
    17,
    "Dead letters are configured wrongly",
    raised_in=["penstock.sink._dead_letters", "penstock._letters", "penstock.spark._replay"],
    causes=["The options `deadLetters.*` are incomplete, or point to where the rows go.",
            "The dead letters can't go where they are to be sent."],
    remedies=["Correct the option that the message names (docs/dead-letters.md)."],
)  # fmt: skip
BOOK.add(
    18,
    "A record or a row is bad",
    raised_in=["penstock.source._bad_records", "penstock.sink._contracts:BadDataError",
               "penstock.sink._changes:BadDataError"],
    causes=["A record can't be decoded, or a row can't be written, as the message says."],
    remedies=["Correct it at its source.", "Set `badRecords` to skip, keep or divert such records.",
              "Set `deadLetters.format` to keep rows that a sink refuses (docs/dead-letters.md)."],
)  # fmt: skip

# --- formats and registries -------------------------------------------------------------------------------------------

BOOK.add(
    20,
    "A record format does not fit the column or the schema",
    raised_in=["penstock.serialization.formats", "penstock.serialization.avro", "penstock.serialization.values"],
    causes=["A field is missing, or its type has no counterpart.", "The schema or the descriptor can't be read.",
            "A package that the format needs is not installed."],
    remedies=["Cast, rename or leave out the field that the message names.", "Correct the schema (docs/formats.md)."],
)  # fmt: skip
BOOK.add(
    21,
    "A schema registry refuses or does not answer",
    raised_in=["penstock.serialization.formats._confluent", "penstock.serialization.formats._apicurio",
               "penstock.serialization.formats._glue", "penstock.serialization.formats._schema_registry",
               "penstock.serialization.formats._registry"],
    causes=["The address, user or password is wrong, or its certificate is not trusted.",
            "The schema is not compatible with the versions that are there.", "The subject or schema does not exist."],
    remedies=["Correct the option `schema.registry.*` that the message names.",
              "Register a compatible schema, or change the compatibility of the subject."],
)  # fmt: skip
BOOK.add(
    22,
    "Bytes are not of the format",
    raised_in=["penstock.serialization.formats:BadDataError", "penstock.serialization.avro:BadDataError",
               "penstock.serialization.values:BadDataError"],
    causes=["The record was written in another format or with another schema, or it is damaged."],
    remedies=["Compare the format and schema with the producer's.", "Set `badRecords` to skip or keep such records."],
)  # fmt: skip

# --- checkpoints ------------------------------------------------------------------------------------------------------

DAMAGED = BOOK.add(
    30,
    "A file of the checkpoint is damaged",
    raised_in=["penstock.serialization._malformed", "penstock.serialization._versioned",
               "penstock.sink._write_ahead:BadDataError", "penstock.storage._names"],
    causes=["A full disk or a copy that was interrupted cut the file off.", "Another program changed the file."],
    remedies=["Put the file back from a copy of the checkpoint that was made at once, as a whole.",
              "A damaged file below offsets/: `penstock restore-offsets CHECKPOINT`.",
              "Without a copy, start with a new checkpoint (docs/production/recovering.md)."],
)  # fmt: skip
BOOK.add(
    31,
    "This is not the checkpoint of a query",
    raised_in=["penstock.checkpoint._stored", "penstock.checkpoint._commands", "penstock.checkpoint._queries",
               "penstock.checkpoint._named"],
    causes=["The path is that of the output, or misspelled.", "The query has not written anything yet.",
            "The part of the checkpoint that is asked for does not exist."],
    remedies=["Give the `checkpointLocation` of the query."],
)  # fmt: skip
OTHER_SOURCE = BOOK.add(
    32,
    "The checkpoint is of another source",
    causes=["The query reads from another connector than the one that the checkpoint was begun with."],
    remedies=["Use the checkpoint of this query.", "Start with a new checkpoint location."],
)
BOOK.add(
    33,
    "The checkpoint was copied or moved",
    raised_in=["penstock.checkpoint._identity"],
    causes=["The directory is a copy of a checkpoint, or was moved.", "Its store can't keep two drivers apart."],
    remedies=["`penstock adopt CHECKPOINT --moved` if the old one is gone.",
              "`penstock adopt CHECKPOINT --copy` if both are to continue."],
)  # fmt: skip
MIXED_PARTS = BOOK.add(
    34,
    "The checkpoint's parts do not belong together",
    raised_in=["penstock.spark._read", "penstock._commit._tasks:FatalError", "penstock._commit._two_phase:FatalError",
               "penstock.checkpoint._spark_log"],
    causes=["Files below offsets/, commits/ or penstock/decisions/ were deleted, restored or edited.",
            "Only a part of the checkpoint was copied back."],
    remedies=["`penstock restore-offsets CHECKPOINT`, then restart.", "Put the whole checkpoint back from one copy.",
              "Start with a new checkpoint after what is written (docs/production/recovering.md)."],
)  # fmt: skip
BOOK.add(
    35,
    "Written by a newer Penstock",
    raised_in=["penstock._commit._chain:FatalError", "penstock.checkpoint:FatalError",
               "penstock.spark._offsets:FatalError"],
    causes=["A newer version of penstock ran this query before."],
    remedies=["Install that version, or a newer one (docs/production/upgrading.md)."],
)  # fmt: skip
BOOK.add(
    36,
    "Another run has taken over",
    raised_in=["penstock._commit:DisplacedError"],
    causes=["Two drivers use one checkpoint.", "`penstock finish --take-over` was run while the query ran."],
    remedies=["Leave this run stopped, and see which other driver uses the checkpoint."],
)
BOOK.add(
    37,
    "A part of a batch is lost",
    raised_in=["penstock._commit:DataLostError", "penstock._commit._two_phase:DataLostError",
               "penstock.checkpoint:DataLostError",
               "penstock.sink._write_ahead:DataLostError"],
    causes=["Staged files were deleted, or transactions timed out, while the driver was down."],
    remedies=["Restore what the message names.", "Decide: `penstock resolve CHECKPOINT --drop-lost`, or "
              "`--write-all-again`."],
)  # fmt: skip
BOOK.add(
    38,
    "A batch has to be written again",
    raised_in=["penstock._commit:RetriableError"],
    causes=["A task's output was lost, or another process wrote to the decision log at the same time."],
    remedies=["Restart the query: the batch is written again, and nothing counts twice."],
)
BOOK.add(
    39,
    "A batch comes first",
    raised_in=["penstock._commit:GaveWayError", "penstock.checkpoint:GaveWayError"],
    causes=["The query decided a batch while `penstock finish` was looking."],
    remedies=["Call the command again."],
)
BOOK.add(
    40,
    "The sink is not the one that the checkpoint was written with",
    raised_in=["penstock.sink._contracts:FatalError", "penstock.sink._union", "penstock.sink._write_ahead",
               "penstock._commit._two_phase:BadConfigurationError"],
    causes=["The query's sink, its delivery or its target was changed.", "The write is one that this sink can't do."],
    remedies=["`penstock finish --take-over CHECKPOINT` with the old options, then change the sink.",
              "Set the old options again."],
)  # fmt: skip
BOOK.add(
    41,
    "The checkpoint location is missing, or is not the writer's own",
    raised_in=["penstock.spark._write"],
    causes=["Exactly once needs `checkpointLocation` on the writer itself."],
    remedies=["Add `.option('checkpointLocation', 'ck/')` to the writer."],
)
NAMES_IN_BATCH = BOOK.add(
    42,
    "Writes of a batch function have no names of their own",
    raised_in=["penstock.spark._foreach_batch", "penstock.spark._sink_group", "penstock.checkpoint._groups"],
    causes=[
        "A write in foreachBatch lacks `batchId`, or has the name of another write or of a group.",
        "A write to a group came after its block, or failed inside it and was not repeated.",
    ],
    remedies=[
        "Write with `penstock.batch_writer(df, batch_id, name=...)` (docs/foreach-batch.md).",
        "Write to a group inside its block, wait there for your threads, and let errors through.",
    ],
)

# --- installation -----------------------------------------------------------------------------------------------------

BOOK.add(
    50,
    "A connector or a command is not installed, or does not fit",
    raised_in=["penstock._plugins", "penstock.cli._plugins", "penstock.cli._new"],
    causes=["The package of the connector is missing, or is of another version than the core.",
            "Its import fails."],
    remedies=["Install it: `pip install penstock-CONNECTOR`.", "See `penstock list` and `penstock doctor`."],
)  # fmt: skip
NOT_INSTALLED = BOOK.add(
    51,
    "A package is not installed",
    raised_in=["penstock._monitoring"],
    causes=["An optional package that this address, format or command needs is missing."],
    remedies=["Run the `pip install` in the message, in the Python that runs the driver and the workers."],
)
NO_JAVA = BOOK.add(
    52,
    "Java is missing, or too old",
    raised_in=["penstock.dev._java"],
    causes=["There is no Java where `JAVA_HOME` or `PATH` lead to, or it is older than 17."],
    remedies=["Install Java 17 or newer, and let `JAVA_HOME` lead to it.", "Check with `penstock doctor`."],
)
BOOK.add(
    53,
    "A development server can't be started",
    raised_in=["penstock.dev"],
    causes=["A port is taken, data is of another version, or no container engine runs."],
    remedies=["Do as the message says.", "See `penstock dev status`."],
)
BOOK.add(
    55,
    "A provider of tokens can't be used, or gives no token",
    raised_in=["penstock.tokens"],
    causes=["The class is not there, refuses its settings, or is none that extends `TokenProvider`.",
            "The service that gives out tokens refuses or does not answer."],
    remedies=["Correct the option that names the provider, and its settings.",
              "See docs/production/logins.md, which says what a provider returns and raises."],
)  # fmt: skip

# --- places: files and stores -----------------------------------------------------------------------------------------

BOOK.add(
    60,
    "An address is not one of a file system",
    raised_in=["penstock.storage._open"],
    causes=["The scheme is unknown or misspelled.", "The bucket or container is missing."],
    remedies=["Write a path, or `s3://`, `abfss://`, `gs://`, `hdfs://`, with a bucket, container or host."],
)
STORE_CREDENTIALS = BOOK.add(
    61,
    "A store refuses the credentials, or there are none",
    causes=["Keys are wrong, expired, or those of another account.", "No keys, profile or role were found."],
    remedies=["Correct `s3.key` and `s3.secret`, `azure.key` or `azure.sas`, or `gcs.credentials`.",
              "Give the rights that docs/production/rights.md lists."],
)  # fmt: skip
STORE_AWAY = BOOK.add(
    62,
    "A store does not answer as one",
    raised_in=["penstock.storage"],
    causes=["The endpoint's host or port is wrong, or nothing listens there.",
            "The endpoint speaks http where https is written, or the other way round.",
            "The store is busy, or the network lost the answer."],
    remedies=["Correct `s3.endpoint`, `azure.endpoint` or `gcs.endpoint`.", "Restart once the store answers."],
)  # fmt: skip
STORE_CERTIFICATE = BOOK.add(
    63,
    "A store's certificate is refused",
    causes=["An authority of your own signed it, or it is for another name."],
    remedies=["Name the authority's file: `AWS_CA_BUNDLE`, `REQUESTS_CA_BUNDLE`.", "Correct the endpoint's host."],
)
BOOK.add(
    64,
    "This file system can't publish safely",
    raised_in=["penstock.storage._local", "penstock.storage._gcs:BadConfigurationError"],
    causes=["It overwrites a file that is to be created only if absent, or has no hard links."],
    remedies=["Put checkpoint and output in another file system."],
)
NOT_WRITABLE = BOOK.add(
    65,
    "A file or directory can't be read or written",
    causes=["The path is misspelled, is a directory, or this user has no rights there.", "The disk is full."],
    remedies=["Correct the path or its rights, or make room."],
)

# --- pipelines and commands -------------------------------------------------------------------------------------------

PIPELINE = BOOK.add(
    70,
    "The pipeline file is wrong",
    raised_in=["penstock.cli._queries", "penstock.cli._frames", "penstock.cli._run_layout",
               "penstock.spark._pipeline_flows"],
    causes=["Sources, views and sinks do not go together, or a function returns no DataFrame."],
    remedies=["Check it without Spark: `penstock run --check FILE` (docs/pipelines.md)."],
)  # fmt: skip
BOOK.add(
    71,
    "A command was called wrongly",
    raised_in=["penstock.cli"],
    causes=["An argument or an option of the command is wrong, or two exclude each other."],
    remedies=["See `penstock COMMAND --help`."],
)
FUNCTION_FAILED = BOOK.add(
    72,
    "Your own function failed",
    causes=["A function of the pipeline, a batch function or a UDF raised an exception."],
    remedies=["Correct it at the file and line that the message names.", "See the whole trace: `--verbose`."],
)
ENGINE_FAILED = BOOK.add(
    73,
    "Spark failed",
    causes=["Spark refuses the query or its settings, or a task failed in Spark itself."],
    remedies=["The message is Spark's own; its class in brackets is documented by Spark.",
              "See the whole trace: `--verbose`."],
)  # fmt: skip

# --- sources ----------------------------------------------------------------------------------------------------------

BOOK.add(
    80,
    "A start or stop position can't be used",
    raised_in=["penstock.source.log._start_stop", "penstock.source.log._enumerator"],
    causes=["A partition is not named, or one is named that does not exist.",
            "No record is at or after the time that was given.", "The stream does not exist."],
    remedies=["Correct the option that the message names."],
)  # fmt: skip
BOOK.add(
    81,
    "Records were dropped before they were read",
    raised_in=["penstock.source.log._losses"],
    causes=["Retention removed them, or the stream was deleted and made again."],
    remedies=["Keep records longer than the query is ever stopped.",
              "`failOnDataLoss=false` continues after the gap and counts it."],
)  # fmt: skip
BOOK.add(
    82,
    "A server gave no answer in time",
    raised_in=["penstock.source.log._first_answer"],
    causes=["The server is down, overloaded, or not reachable from here."],
    remedies=["Check the address.", "Restart once it answers."],
)
BOOK.add(
    83,
    "A connector breaks the contract of readers",
    raised_in=["penstock.source._reader", "penstock.source._simple", "penstock.source.log._log_source"],
    causes=["A bug in a connector that you write, or a checkpoint that another connector began."],
    remedies=["Run the conformance kit (docs/authors)."],
)
BOOK.add(
    84,
    "An enrichment is configured wrongly, or its function failed",
    raised_in=["penstock.enrichment"],
    causes=["The function raised, or returned what does not fit `returns`."],
    remedies=["Correct it; choose with `failures` what happens to such rows (docs/enriching.md)."],
)
