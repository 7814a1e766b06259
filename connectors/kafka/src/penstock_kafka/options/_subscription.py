"""Which topics and partitions a source reads: ``assign``, ``subscribe`` or ``subscribePattern``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.source.log import LogPartition
from penstock_kafka.options._positions import parse_assignment

__all__ = ["Subscription", "check_topic"]

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
#: A class of characters with what is in it, or an escaped character.
_CLASS = re.compile(r"\\.|\[(\^?\]?(?:\\.|[^\]\\])*)\]", re.DOTALL)
#: Kafka's own topics are read only where they are named, never by a pattern, as with the Java client's default.
_INTERNAL = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))


def check_topic(option: str, topic: str) -> str:
    """``topic`` itself. Raises BadConfigurationError if no topic can have that name."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise BadConfigurationError(
            f"option '{option}': {topic!r} can't be a topic: names have 1 to 249 letters, digits, dots, _ and -"
        )
    return topic


@dataclass(frozen=True)
class Subscription:
    """Topics by name, in order, of some only ``partitions`` (empty: all); or those in whose names ``pattern`` is."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[LogPartition] = frozenset()

    @classmethod
    def from_values(cls, values: OptionValues) -> Subscription:
        """Parses the one of three options that is set. Raises BadConfigurationError for what can't be read."""
        if values["assign"] is not None:
            partitions = parse_assignment(values["assign"].strip())
            topics = {check_topic("assign", partition.stream) for partition in partitions}
            return cls(topics=tuple(sorted(topics)), partitions=partitions)
        if values["subscribe"] is not None:
            topics = {topic.strip() for topic in values["subscribe"].split(",") if topic.strip()}
            if not topics:
                raise BadConfigurationError("option 'subscribe' names no topic; write topics separated by commas")
            return cls(topics=tuple(sorted(check_topic("subscribe", topic) for topic in topics)))
        text = values["subscribePattern"].strip()
        _check_pattern(text)
        if not text:
            raise BadConfigurationError("option 'subscribePattern' is empty; write for example orders-.*")
        return cls(pattern=text)

    def matches(self, topic: str) -> bool:
        """Returns whether ``topic`` is read, all of it or some partitions."""
        if self.pattern is None:
            return topic in self.topics
        # Anywhere in the name, as Spark's connector looks for it.
        return topic not in _INTERNAL and re.search(self.pattern, topic) is not None


def _check_pattern(text: str) -> None:
    # Java joins and intersects classes there, and Python takes the characters as they are.
    inside = [_ESCAPED.sub("", found[1]) for found in _CLASS.finditer(text) if found[1]]
    if any("[" in characters or "&&" in characters for characters in inside):
        raise BadConfigurationError(
            f"option 'subscribePattern': {text!r} has [ or && within [...], which Java and Python read differently: "
            "write the characters of the class one by one, or \\[ and \\& for the characters themselves"
        )
    try:
        re.compile(text)
    except re.error as error:
        raise BadConfigurationError(f"option 'subscribePattern': {text!r} is no regular expression: {error}") from None
