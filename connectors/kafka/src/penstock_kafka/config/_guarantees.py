"""Settings of librdkafka that would break what the connector promises, and those that mean nothing to it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock_kafka.config._rules import Rule, refused, unused

__all__ = ["GUARDED"]

_START = (
    "is not supported: the query keeps its offsets itself. Say where it starts in the option 'startingOffsets' "
    "(earliest, latest), which holds for a new query; a restarted one resumes where it stopped"
)
_COMMIT = (
    "is not supported: offsets are kept in the checkpoint. To have those of finished batches committed to a consumer "
    "group as well, name it in the option 'commitGroupOffsets'"
)
_PROGRAM = "can only be set by a program that is linked with librdkafka: leave it out"

#: The connector reads assigned partitions, and never joins a group.
_OF_GROUP_MEMBERS = """
    auto.commit.interval.ms coordinator.query.interval.ms group.instance.id group.protocol group.protocol.type
    group.remote.assignor heartbeat.interval.ms max.poll.interval.ms max.poll.records partition.assignment.strategy
    session.timeout.ms share.acknowledgement.mode consume.callback.max.messages offset.store.path
    offset.store.sync.interval.ms produce.offset.report statistics.interval.ms
"""
_FOR_PROGRAMS = """
    background_event_cb closesocket_cb connect_cb consume_cb default_topic_conf dr_cb dr_msg_cb enabled_events error_cb
    interceptors log.queue log_cb msg_order_cmp oauthbearer_token_refresh_cb offset_commit_cb opaque open_cb
    partitioner_cb rebalance_cb resolve_cb socket_cb ssl.certificate.verify_cb ssl_ca ssl_certificate
    ssl_engine_callback_data ssl_key stats_cb throttle_cb
"""

GUARDED: Mapping[str, Rule] = {
    **dict.fromkeys(_OF_GROUP_MEMBERS.split(), unused),
    **dict.fromkeys(_FOR_PROGRAMS.split(), refused(_PROGRAM)),
    "auto.offset.reset": refused(_START),
    "delivery.report.only.error": refused("is set by the connector, which needs every report: leave it out"),
    "enable.auto.commit": refused(_COMMIT),
    "enable.auto.offset.store": refused(_COMMIT),
    "enable.partition.eof": refused("is set by the connector: leave it out"),
    "offset.store.method": refused(_COMMIT),
    "partitioner": refused("is set by the connector: use its option 'partitioner' without 'kafka.'"),
    "plugin.library.paths": refused("loads libraries into every task: leave it out"),
    "queuing.strategy": refused("would change the order of records: leave it out"),
    "topic.blacklist": refused("would hide topics: name those to read in the option 'subscribe' or 'subscribePattern'"),
    "transaction.timeout.ms": refused("is set by the connector: use its option 'transactionTimeout'"),
    "transactional.id": refused(
        "is set by the connector, one for each task: use the options 'delivery' with exactly-once and "
        "'transactionalIdPrefix'"
    ),
}
