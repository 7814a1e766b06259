"""The sink that a user's options mean, with the sink of its dead letters if they name one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock._plugins import InstalledConnector, find_connector, installed_connectors
from penstock.connector import Capability, Connector
from penstock.errors import BadConfigurationError
from penstock.options import (
    DEAD_LETTER_FORMAT,
    DEAD_LETTER_OPTIONS,
    DEAD_LETTER_PREFIX,
    Condition,
    Option,
    OptionSet,
    OptionValues,
    complete_options,
)
from penstock.retry import RetryPolicy

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.dead_letters import LetterForm
    from penstock.sink import Sink

__all__ = ["Destination", "check_sink", "create_sink", "destination_of", "letters_of", "parse_letters"]

#: What a connector calls ``format`` has this name for letters, whose ``format`` is the connector's.
_FILE_FORMAT = "fileFormat"


@dataclass(frozen=True)
class Destination:
    """Where letters go: the connector of ``deadLetters.format``, as its users name it."""

    name: str
    connector: Connector
    options: OptionSet
    form: LetterForm


def destination_of(given: Mapping[str, str]) -> Destination | None:
    """Returns where the options say that dead letters go; ``None`` if they are not sent anywhere.

    Raises BadConfigurationError for a format that can't take them.
    """
    text = next((text for name, text in given.items() if name.lower() == DEAD_LETTER_FORMAT.lower()), None)
    if text is None:
        return None
    try:
        found = find_connector(text.strip())
    except BadConfigurationError as error:
        raise BadConfigurationError(f"option '{DEAD_LETTER_FORMAT}': {error}") from None
    connector = found.load()
    form = connector.letter_form()
    if form is None or connector.sink_options is None:
        raise BadConfigurationError(f"option '{DEAD_LETTER_FORMAT}': {found.format} takes no dead letters")
    return Destination(found.name, connector, connector.sink_options, form)


def parse_letters(connector: Connector, options: OptionValues) -> tuple[Destination, OptionValues] | None:
    """Returns the destination of dead letters and its options, completed by what holds for the rows' sink; ``None`` if
    they are not sent anywhere.

    Raises BadConfigurationError for options that its own declarations refuse, by the names that the user wrote.
    """
    destination = destination_of(options.texts(secrets=True))
    if destination is None:
        return None
    given = _without_prefix(options.texts(secrets=True))
    taken = _taken_over(connector, options, destination, given)
    return destination, _parsed(destination, destination.options.completed(given, taken))


def letters_of(given: Mapping[str, str]) -> tuple[Destination, OptionValues] | None:
    """Returns what :func:`parse_letters` does, of a sink whose other options are not known.

    Raises BadConfigurationError as that does, and for an option that is not about dead letters.
    """
    destination = destination_of(given)
    if destination is None:
        return None
    others = [name for name in given if not name.lower().startswith(DEAD_LETTER_PREFIX.lower())]
    if others:
        raise BadConfigurationError(f"option '{others[0]}' is not one of dead letters: {DEAD_LETTER_PREFIX}...")
    return destination, _parsed(destination, _without_prefix(given))


def _parsed(destination: Destination, given: Mapping[str, str]) -> OptionValues:
    texts = complete_options(given, destination.form.defaults)
    values = _prefixed(destination.options).parse(
        {_prefixed_name(name): text for name, text in texts.items()},
        owner=f"the sink of dead letters, penstock.{destination.name},",
    )
    return OptionValues(destination.options, _without_prefix(values.texts(secrets=True)))


def _without_prefix(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of the letters' sink, by their own names."""
    prefix = DEAD_LETTER_PREFIX.lower()
    own = {name[len(prefix) :]: text for name, text in texts.items() if name.lower().startswith(prefix)}
    own.pop("format", None)
    return {"format" if name.lower() == _FILE_FORMAT.lower() else name: text for name, text in own.items()}


def _prefixed_name(name: str) -> str:
    return f"{DEAD_LETTER_PREFIX}{_FILE_FORMAT if name == 'format' else name}"


def _taken_over(
    connector: Connector, options: OptionValues, destination: Destination, given: Mapping[str, str]
) -> dict[str, str]:
    """Returns what holds for letters as it does for rows, as far as the user says nothing else."""
    taken: dict[str, str] = {}
    rows = options.texts(secrets=True)
    if isinstance(connector, type(destination.connector)) and not _goes_elsewhere(destination.form, options, given):
        for name, text in rows.items():
            option = options.declared.find(name)
            if option is not None and option.connects:
                taken[name] = text
    if "retryTimeout" in rows:
        taken["retryTimeout"] = rows["retryTimeout"]
    delivery = destination.options.find("delivery")
    commits = options.get("delivery", "exactly-once") in ("exactly-once", "write-ahead")
    wanted = "exactly-once" if commits and Capability.EXACTLY_ONCE in connector.capabilities else "at-least-once"
    if delivery is not None and wanted in delivery.choices:
        taken["delivery"] = wanted
    return taken


def _goes_elsewhere(form: LetterForm, options: OptionValues, given: Mapping[str, str]) -> bool:
    addresses = {name.lower() for name in form.address}
    rows = {name.lower(): text for name, text in options.texts(secrets=True).items()}
    return any(text != rows.get(name.lower()) for name, text in given.items() if name.lower() in addresses)


def _prefixed(declared: OptionSet) -> OptionSet:
    """Returns the declarations under the names that a user writes, so that messages have these names."""
    of_letters = {option.name for option in DEAD_LETTER_OPTIONS}
    instead = {_prefixed_name(name): advice for name, advice in declared.instead.items()}
    return OptionSet((_with_prefix(option) for option in declared if option.name not in of_letters), instead=instead)


def _with_prefix(option: Option) -> Option:
    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_prefixed_name, names))

    def condition(one: Condition) -> Condition:
        return replace(one, option=_prefixed_name(one.option))

    def need(one: Condition | tuple[Condition, ...]) -> Condition | tuple[Condition, ...]:
        return tuple(map(condition, one)) if isinstance(one, tuple) else condition(one)

    return replace(
        option,
        name=_prefixed_name(option.name),
        aliases=named(option.aliases),
        former=named(option.former),
        credentials=named(option.credentials),
        required_with=tuple(map(condition, option.required_with)),
        needs=tuple(map(need, option.needs)),
        excludes=tuple(map(condition, option.excludes)),
    )


def check_sink(connector: Connector, options: OptionValues, schema: pa.Schema | None) -> type[Sink] | None:
    """Returns the class of the sink that :func:`create_sink` makes, before those of dead letters are added to it;
    ``None`` if it is not known. Connects to nothing.

    Raises BadConfigurationError for options that can't be used, those of dead letters among them, and for rows of
    ``schema`` (``None``: they are not known) that the sink does not take.
    """
    parsed = parse_letters(connector, options)
    if parsed is None:
        return connector.check_sink(options, schema)
    destination, letter_options = parsed
    _check_place(connector, options, letter_options, destination)
    with _of_letters():
        destination.connector.check_sink(letter_options, destination.form.schema)
    bad = options["badRecordColumn"]
    return connector.check_sink(options, None if schema is None else _without_column(schema, bad))


def _without_column(schema: pa.Schema, name: str) -> pa.Schema:
    index = schema.get_field_index(name)
    return schema if index < 0 else schema.remove(index)


@contextlib.contextmanager
def _of_letters() -> Iterator[None]:
    try:
        yield
    except BadConfigurationError as error:
        raise BadConfigurationError(f"dead letters (options 'deadLetters.*'): {error}") from None


def create_sink(connector: Connector, options: OptionValues, schema: pa.Schema) -> Sink:
    """Makes the sink for rows of ``schema``, with the sink of its dead letters if the options name one. Driver.

    Raises BadConfigurationError, as the connectors do.
    """
    from penstock.sink import LetterRoute, with_dead_letters

    parsed = parse_letters(connector, options)
    if parsed is None:
        return connector.create_sink(options, schema)
    destination, letter_options = parsed
    _check_place(connector, options, letter_options, destination)
    route = LetterRoute.of(
        schema,
        options["badRecordColumn"],
        connector=_name_of(connector),
        destination=destination.name,
        form=destination.form,
        retry=RetryPolicy.from_values(letter_options),
    )
    rows = connector.create_sink(options, route.row_schema)
    maker = connector if isinstance(connector, type(destination.connector)) else destination.connector
    with _of_letters():
        letters = maker.create_sink(letter_options, destination.form.schema)
    return with_dead_letters(rows, letters, route)


def _check_place(
    connector: Connector, options: OptionValues, letter_options: OptionValues, destination: Destination
) -> None:
    place = destination.form.place
    if not place or not isinstance(connector, type(destination.connector)):
        return
    rest = {*destination.form.address, *destination.connector.target_options} - {place}
    if options[place] is None or any(options.get(name) != letter_options.get(name) for name in rest):
        return
    rows, letters = options[place], letter_options[place]
    declared = destination.options.find(place)
    is_path = declared is not None and declared.kind == "path"
    is_shared = _is_in(letters, rows) or _is_in(rows, letters) if is_path else letters == rows
    if is_shared:
        where = f"that of the rows, {rows}" if letters == rows else f"{letters}, and rows are written to {rows}"
        raise BadConfigurationError(
            f"option '{DEAD_LETTER_PREFIX}{place}' is {where}: dead letters need a place of their own"
        )


def _is_in(path: str, directory: str) -> bool:
    """Returns whether readers of ``directory`` read what is at ``path``: it is the same, or below under no name that is
    hidden.
    """
    own, rows = (f"{re.sub('^file:(//)?(?=/)', '', one).rstrip('/')}/" for one in (path, directory))
    return own.startswith(rows) and not any(name[0] in "._" for name in own[len(rows) :].split("/") if name)


def _name_of(connector: Connector) -> str:
    """Returns the name under which a connector is installed; for another one, what its class is called."""
    for kind in type(connector).__mro__:
        for one in installed_connectors():
            if _is_of(one, kind):
                return one.name
    return type(connector).__name__.removesuffix("Connector").lower()


def _is_of(installed: InstalledConnector, kind: type) -> bool:
    module, _, name = installed.entry_point.value.partition(":")
    return name == kind.__qualname__ and kind.__module__.split(".")[0] == module.split(".")[0]
