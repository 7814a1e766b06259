"""The source's options as the source uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization.formats import FormatSettings
from penstock.source.event_time import EventTimeSettings
from penstock.source.log import Earliest, Latest, LogOptions
from penstock_kafka.client.login import check_login
from penstock_kafka.config import ClientSettings, report_without_effect
from penstock_kafka.options._positions import check_batch_start, check_order, parse_start, parse_stop
from penstock_kafka.options._subscription import Subscription

__all__ = ["SourceOptions"]

#: A look that brings nothing for so long is tried again.
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True)
class SourceOptions:
    """Checked, typed, picklable. Holds secrets in ``consumer``, ``admin`` and the formats; the repr hides them.

    ``log`` is what the log template needs, with the defaults of Spark's connector. ``group_id`` is what the user set
    as ``kafka.group.id``.
    """

    subscription: Subscription
    consumer: ClientSettings
    admin: ClientSettings
    client: str
    log: LogOptions
    include_headers: bool
    group_id_prefix: str
    group_id: str | None
    key_format: FormatSettings
    value_format: FormatSettings
    bad_records: str
    bad_record_column: str

    @classmethod
    def from_values(cls, values: OptionValues) -> SourceOptions:
        """Returns the options of ``values``. Raises BadConfigurationError for what does not go together."""
        kafka = values.with_prefix("kafka.")
        consumer = ClientSettings.from_options(kafka, "consumer")
        check_login(consumer.librdkafka(), values["client"])
        group_id = consumer.librdkafka().get("group.id")
        report_without_effect(kafka, "consumer", values["client"], *_of_groups(values, group_id))
        if values["badRecordColumn"] in _COLUMNS:
            raise BadConfigurationError(f"option 'badRecordColumn': '{values['badRecordColumn']}' is a column already")
        return cls(
            subscription=Subscription.from_values(values),
            consumer=consumer,
            admin=ClientSettings.from_options(kafka, "admin"),
            client=values["client"],
            log=_log_options(values, group_id),
            include_headers=values["includeHeaders"],
            group_id_prefix=values["groupIdPrefix"],
            group_id=group_id,
            key_format=FormatSettings.from_values(values, "key", reading=True),
            value_format=FormatSettings.from_values(values, "value", reading=True),
            bad_records=values["badRecords"],
            bad_record_column=values["badRecordColumn"],
        )

    @property
    def reads_committed_only(self) -> bool:
        """Whether records of open and aborted transactions are left out: unless ``kafka.isolation.level`` says no."""
        return self.consumer.librdkafka().get("isolation.level", "read_committed").lower() != "read_uncommitted"

    def for_sampling(self) -> SourceOptions:
        """Returns the same for a look at a few records: little is fetched, and what is bad or lost is for others to
        report.
        """
        return replace(
            self,
            consumer=self.consumer.replaced({"queued.min.messages": "1", "fetch.message.max.bytes": "65536"}),
            log=replace(self.log, fail_on_data_loss=False),
            bad_records="null",
        )

    def check_batch(self) -> None:
        """Raises BadConfigurationError if a batch would start at the latest offset. For a batch read only."""
        check_batch_start(self.log.batch_start)


def _log_options(values: OptionValues, group_id: str | None) -> LogOptions:
    commit_group = _commit_group(values)
    start, stop = parse_start(values, group_id or commit_group), parse_stop(values)
    check_order(start, stop)
    least, most = values["minRowsPerTrigger"], values["maxRowsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise BadConfigurationError(f"option 'minRowsPerTrigger' ({least}) is above maxRowsPerTrigger ({most})")
    ends: dict[str, Earliest | Latest] = {"earliest": Earliest(), "latest": Latest()}
    return LogOptions(
        start=start or Latest(),
        batch_start=start or Earliest(),
        stop=stop,
        new_partitions_start=ends[values["newPartitionsStart"]],
        new_streams_start=ends[values["newTopicsStart"]],
        max_records=most,
        min_records=least,
        max_trigger_delay_ms=values["maxTriggerDelay"],
        min_partitions=values["minPartitions"],
        max_records_per_partition=values["maxRecordsPerPartition"],
        fail_on_data_loss=values["failOnDataLoss"],
        discovery_interval_ms=values["discoveryInterval"],
        commit_group=commit_group,
        retries=values["fetchOffset.numRetries"],
        retry_interval_ms=values["fetchOffset.retryIntervalMs"],
        event_time=EventTimeSettings.from_values(values),
    )


def _of_groups(values: OptionValues, group_id: str | None) -> list[str]:
    """Returns the options that name a group, which the client that speaks the protocol joins and shows none of."""
    asks_for_offsets = values["startingOffsets"] == "group-offsets"
    by_id = ["kafka.group.id"] if group_id is not None and not asks_for_offsets else []
    return (["groupIdPrefix"] if values.is_set("groupIdPrefix") else []) + by_id


def _commit_group(values: OptionValues) -> str | None:
    group: str | None = values["commitGroupOffsets"]
    if group is not None and (not group.strip() or group.strip().lower() in ("true", "false")):
        raise BadConfigurationError("option 'commitGroupOffsets' takes the name of a consumer group")
    return group.strip() if group else None
