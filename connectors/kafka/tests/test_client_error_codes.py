"""The one table of error codes, beside what both client libraries know of the same numbers."""

from __future__ import annotations

import kafka.errors
import pytest
from confluent_kafka import KafkaError

from penstock_kafka.client._errors import MISSING, MOVING, NOT_AUTHENTICATED, Code
from penstock_kafka.client.broker import problem_of_code
from penstock_kafka.client.librdkafka._errors import problem_of

#: Where a library has a name of its own for one of Kafka's.
OTHERWISE = {
    Code.UNKNOWN_SERVER_ERROR: {"UNKNOWN"},
    Code.NONE: {"NO_ERROR"},
    Code.CORRUPT_MESSAGE: {"INVALID_MSG"},
    Code.UNKNOWN_TOPIC_OR_PARTITION: {"UNKNOWN_TOPIC_OR_PART"},
    Code.NOT_LEADER_OR_FOLLOWER: {"NOT_LEADER_FOR_PARTITION"},
    Code.MESSAGE_TOO_LARGE: {"MESSAGE_SIZE_TOO_LARGE", "MSG_SIZE_TOO_LARGE"},
    Code.INVALID_TOPIC_EXCEPTION: {"INVALID_TOPIC", "TOPIC_EXCEPTION"},
    Code.TRANSACTIONAL_ID_NOT_FOUND: {"ERR_105?"},
}


@pytest.mark.parametrize("code", list(Code), ids=lambda code: code.name)
def test_both_libraries_call_a_number_the_same(code):
    assert {kafka.errors.for_code(code).message, KafkaError(code).name()} <= {code.name, *OTHERWISE.get(code, ())}
    assert problem_of_code(code).code == problem_of(KafkaError(code)).code == code.name


def test_every_name_is_one_of_the_table_or_a_clients_own():
    for name in MISSING | MOVING | NOT_AUTHENTICATED:
        assert name in Code.__members__ or KafkaError(getattr(KafkaError, name)).name() == name


def test_a_code_that_means_nothing_here_is_named_by_the_library():
    assert problem_of_code(68).code == problem_of(KafkaError(68)).code == "NON_EMPTY_GROUP"
