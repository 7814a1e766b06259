"""Producer settings that contradict the delivery that the user chose."""

from __future__ import annotations

from typing import Literal

from penstock_kafka.config._rules import wrong
from penstock_kafka.config._settings import ClientSettings

__all__ = ["Delivery", "check_delivery", "check_transaction_timeout", "delivery_timeout_ms"]

#: What both clients have as default.
_REQUEST_TIMEOUT_MS = 30_000
#: librdkafka takes 32 bits, 24.8 days, and of a larger number only the last 32.
_LONGEST_DELIVERY_MS = (1 << 31) - 1

#: The values of the option ``delivery``.
Delivery = Literal["none", "at-least-once", "exactly-once"]


def check_delivery(settings: ClientSettings, delivery: Delivery) -> None:
    """Raises BadConfigurationError for settings of a producer that would break ``delivery``.

    At least once needs an acknowledgement of every in-sync replica and retries; exactly once also the idempotent
    producer with its limit of requests in flight. ``none`` promises nothing, so nothing can break it.
    """
    if delivery == "none":
        return
    given = settings.librdkafka()
    leave_out = f"leave it out, or choose the option 'delivery' with none instead of {delivery}"
    if given.get("acks", "all").lower() not in ("all", "-1"):
        raise wrong("acks", f"must be all, or a broker's crash loses acknowledged records: {leave_out}")
    if given.get("retries", "1") == "0":
        raise wrong("retries", f"must not be 0, or records are lost while a leader moves: {leave_out}")
    idempotent = given.get("enable.idempotence", "true").lower() == "true"
    if delivery == "exactly-once" and not idempotent:
        raise wrong(
            "enable.idempotence", "must be true for transactions: leave it out, or choose 'delivery' with at-least-once"
        )
    in_flight = given.get("max.in.flight.requests.per.connection", "5")
    if idempotent and in_flight.isdigit() and int(in_flight) > 5:
        raise wrong(
            "max.in.flight.requests.per.connection",
            "must be 5 at most, or retries could double or reorder records: leave it out",
        )


def check_transaction_timeout(settings: ClientSettings, timeout_ms: int) -> None:
    """Raises BadConfigurationError if records may be in flight for longer than a transaction of ``timeout_ms``."""
    text = settings.librdkafka().get("delivery.timeout.ms", "")
    if text.isdigit() and (int(text) == 0 or int(text) > timeout_ms):
        raise wrong(
            "delivery.timeout.ms",
            f"({'endless' if text == '0' else text + ' ms'}) must not be longer than a transaction may last, "
            f"{timeout_ms} ms: leave it out, or raise the option 'transactionTimeout'",
        )


def delivery_timeout_ms(settings: ClientSettings, retry_timeout_ms: int) -> int:
    """Returns for how long a producer sends a record again, unless ``delivery.timeout.ms`` says it: ``retryTimeout``.

    At least as long as one request may take, so that a slow broker is not mistaken for one that is away.
    """
    request = settings.librdkafka().get("request.timeout.ms", "")
    least = int(request) if request.isdigit() else _REQUEST_TIMEOUT_MS
    return min(max(retry_timeout_ms, least), _LONGEST_DELIVERY_MS)
