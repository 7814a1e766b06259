"""Client settings: what users write as ``kafka.…``, in Java's or librdkafka's spelling, checked and translated."""

from penstock_kafka.config._client import CLIENTS, FORMER_CLIENTS
from penstock_kafka.config._delivery import (
    Delivery,
    check_delivery,
    check_transaction_timeout,
    delivery_timeout_ms,
)
from penstock_kafka.config._files import files_of, names_file
from penstock_kafka.config._librdkafka import canonical, meaning_of
from penstock_kafka.config._rules import wrong
from penstock_kafka.config._secrets import hide, is_secret_setting
from penstock_kafka.config._settings import ClientSettings
from penstock_kafka.config._tokens import TOKEN_PROVIDER, sasl_pairs
from penstock_kafka.config._translate import Role
from penstock_kafka.config._without_effect import PROTOCOL_WITHOUT_EFFECT, report_without_effect

__all__ = [
    "CLIENTS",
    "FORMER_CLIENTS",
    "PROTOCOL_WITHOUT_EFFECT",
    "TOKEN_PROVIDER",
    "ClientSettings",
    "Delivery",
    "Role",
    "canonical",
    "check_delivery",
    "check_transaction_timeout",
    "delivery_timeout_ms",
    "files_of",
    "hide",
    "is_secret_setting",
    "meaning_of",
    "names_file",
    "report_without_effect",
    "sasl_pairs",
    "wrong",
]
