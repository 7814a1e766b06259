"""Client settings: what users write as ``kafka.…``, in Java's or librdkafka's spelling, checked and translated."""

from penstock_kafka.config._delivery import Delivery, check_delivery, check_transaction_timeout
from penstock_kafka.config._librdkafka import canonical
from penstock_kafka.config._secrets import is_secret_setting
from penstock_kafka.config._settings import ClientSettings
from penstock_kafka.config._translate import Role

__all__ = [
    "ClientSettings",
    "Delivery",
    "Role",
    "canonical",
    "check_delivery",
    "check_transaction_timeout",
    "is_secret_setting",
]
