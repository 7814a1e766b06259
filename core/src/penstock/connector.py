"""What a connector declares: its name and options, what it can do, and how its source and its sink are made.

A connector package offers its class as an entry point in its ``pyproject.toml``::

    [project.entry-points."penstock.connectors"]
    filesystem = "penstock_filesystem:FileSystemConnector"

The name of the entry point makes the name of the format: ``penstock.filesystem``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.options import DEAD_LETTER_OPTIONS, Option, OptionSet, OptionValues, common_option

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.dead_letters import LetterForm, LetterReturn
    from penstock.dev import DevServer
    from penstock.sink import Sink
    from penstock.source import Source

__all__ = ["Capability", "Connector"]


class Capability(str, Enum):
    """What a connector can do. The conformance kit proves each one declared, and that the others are refused cleanly.

    A member is equal to its text, which commands and reports print.
    """

    BATCH_READ = "batch-read"
    STREAM_READ = "stream-read"
    BATCH_WRITE = "batch-write"
    STREAM_WRITE = "stream-write"
    EXACTLY_ONCE = "exactly-once"
    #: A query continues with more or fewer tasks.
    RESCALING = "rescaling"
    #: An option bounds how much a micro-batch reads.
    ADMISSION_CONTROL = "admission-control"
    #: A running stream finds what is added.
    DISCOVERY = "discovery"
    #: A stream continues where it was after any restart, without losing a row.
    RESUMABLE = "resumable"
    #: A stream reads what was there when it began, in steps, and ends.
    BOUNDED = "bounded"

    def __str__(self) -> str:
        return self.value


#: What a capability makes sense with: one of these must be declared as well.
_NEEDS = {
    Capability.EXACTLY_ONCE: {Capability.BATCH_WRITE, Capability.STREAM_WRITE},
    Capability.RESCALING: {Capability.STREAM_READ, Capability.STREAM_WRITE},
    Capability.ADMISSION_CONTROL: {Capability.STREAM_READ},
    Capability.DISCOVERY: {Capability.STREAM_READ},
    Capability.RESUMABLE: {Capability.STREAM_READ},
    Capability.BOUNDED: {Capability.STREAM_READ},
}


def _with(declared: OptionSet | None, *of_every: Option) -> OptionSet | None:
    if declared is None:
        return None
    names = {option.name for option in declared}
    more = [option for option in of_every if option.name not in names]
    return type(declared)([*declared, *more], instead=declared.instead)


class Connector(ABC):
    """A plugin: options, capabilities, and the factories of source and sink. It is made without arguments.

    Options are checked against their declarations before a factory sees them. Every connector has the option
    ``retryTimeout``, and the engine retries for it; every sink has those for dead letters, which are sent to a second
    sink by the engine. A class whose declarations contradict each other raises
    :class:`TypeError` when it is defined: a capability to read without ``source_options``, one to write without
    ``sink_options``, or one that needs another; and one of ``target_options`` or
    ``batch_write_defaults`` that the sink lacks.
    """

    summary: ClassVar[str] = ""
    source_options: ClassVar[OptionSet | None] = None
    sink_options: ClassVar[OptionSet | None] = None
    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    #: The options of the sink that say where it writes, the last one most closely: sinks that agree in all of them have
    #: the same target, unless the last one is not set.
    target_options: ClassVar[tuple[str, ...]] = ()
    #: Values of the sink's options that suit a batch write (``df.write``) which belongs to no stream. Each holds unless
    #: the user sets the option, or one of those after it.
    batch_write_defaults: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Checks what the class declares."""
        super().__init_subclass__(**arguments)
        retry_timeout = common_option("retryTimeout")
        cls.source_options = _with(cls.source_options, retry_timeout)
        cls.sink_options = _with(cls.sink_options, retry_timeout, *DEAD_LETTER_OPTIONS)
        try:
            cls.capabilities = frozenset(Capability(one) for one in cls.capabilities)
        except ValueError as error:
            raise TypeError(f"{cls.__name__}.capabilities: {error}; use members of Capability") from None
        for name in cls.target_options:
            cls._check_sink_has(name, "target_options")
        for name, (_, others) in cls.batch_write_defaults.items():
            for one in (name, *others):
                cls._check_sink_has(one, "batch_write_defaults")
        for capability in sorted(cls.capabilities):
            problem = cls._contradiction(capability)
            if problem:
                raise TypeError(f"{cls.__name__} declares the capability {capability} {problem}")

    @classmethod
    def _check_sink_has(cls, name: str, where: str) -> None:
        if cls.sink_options is None or cls.sink_options.find(name) is None:
            raise TypeError(f"{cls.__name__}.{where}: the sink has no option '{name}'")

    @classmethod
    def _contradiction(cls, capability: Capability) -> str:
        if capability in (Capability.BATCH_READ, Capability.STREAM_READ) and cls.source_options is None:
            return "without source_options"
        if capability in (Capability.BATCH_WRITE, Capability.STREAM_WRITE) and cls.sink_options is None:
            return "without sink_options"
        needed = _NEEDS.get(capability)
        if needed and not needed & cls.capabilities:
            return f"without {' or '.join(sorted(needed))}"
        return ""

    def create_source(self, options: OptionValues) -> Source[Any, Any]:
        """Makes a source. Called only if ``source_options`` is declared."""
        raise NotImplementedError

    def create_sink(self, options: OptionValues, schema: pa.Schema) -> Sink:
        """Makes a sink for rows of ``schema``. Called only if ``sink_options`` is declared."""
        raise NotImplementedError

    def check_sink(self, options: OptionValues, schema: pa.Schema | None) -> type[Sink] | None:
        """Returns the class of the sink that ``options`` make; ``None`` if that is not known.

        Raises BadConfigurationError for options that can't be used, and for rows of ``schema`` (``None``: they are not
        known) that such a sink does not take. Connects to nothing, and imports nothing of the user's: ``penstock run
        --check`` calls it.
        """
        return None

    def letter_form(self) -> LetterForm | None:
        """Returns how the sink takes dead letters as rows; ``None`` if it can't take any."""
        return None

    def letter_source(self, options: OptionValues) -> Mapping[str, str] | None:
        """Returns the source's options that read, from the first one on, the dead letters which a sink with ``options``
        has written; without those that only say how the system is reached. ``None`` if they are no endless stream.
        """
        return None

    def letter_return(self) -> LetterReturn | None:
        """Returns how records that were dead letters are written again; ``None`` if the sink can't take them."""
        return None

    def dev_server(self) -> DevServer | None:
        """Returns the server that ``penstock dev up`` starts; ``None`` if users need none."""
        return None

    @abstractmethod
    def describe_guarantee(self) -> str:
        """Says in one line what is guaranteed, for the table of guarantees."""
