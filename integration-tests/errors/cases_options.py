"""Options with a wrong name or a wrong value, of every connector, as its declaration says which are wrong.

A source's are given to ``penstock describe``, a sink's to ``penstock run --check``: neither needs Spark or a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from errors.case import Case
from penstock._plugins import find_connector
from penstock.options import Option, OptionSet

__all__ = ["CASES"]

#: By kind: a value that is none of it.
_WRONG = {"int": "many", "bool": "perhaps", "duration": "soon", "bytes": "much", "float": "half", "mode": "x"}
#: What each side needs to be asked at all.
_NEEDED = {
    ("filesystem", "source"): {"format": "csv", "path": "{tmp}"},
    ("filesystem", "sink"): {"path": "{tmp}/out"},
    ("kafka", "source"): {"kafka.bootstrap.servers": "{refused}", "subscribe": "orders"},
    ("kafka", "sink"): {"kafka.bootstrap.servers": "{refused}", "topic": "orders"},
    ("cassandra", "source"): {"keyspace": "shop", "table": "orders", "port": "{refused_port}"},
    ("cassandra", "sink"): {"keyspace": "shop", "table": "orders", "port": "{refused_port}"},
    ("pravega", "source"): {"controller": "tcp://{refused}", "stream": "shop/orders"},
    ("pravega", "sink"): {"controller": "tcp://{refused}", "stream": "shop/orders"},
}
_PIPELINE = """\
source: {format: rate}
sink:
  format: penstock.CONNECTOR
  options: {OPTIONS}
checkpoint: ck
"""


def _side(connector: str, role: str) -> OptionSet:
    loaded = find_connector(connector).load()
    declared = loaded.source_options if role == "source" else loaded.sink_options
    assert declared is not None
    return declared


def _wrong_value(option: Option) -> str | None:
    if option.is_prefix or option.secret:
        return None
    if option.choices:
        return "nonsense"
    return _WRONG.get(option.kind)


def _case(name: str, connector: str, role: str, options: dict[str, str], says: list[str]) -> Case:
    if role == "source":
        given = [word for one, text in options.items() for word in ("-o", f"{one}={text}")]
        return Case(name, "cli", ["describe", connector, *given], says, 2)
    text = ", ".join(f'"{one}": "{text}"' for one, text in options.items())
    pipeline = _PIPELINE.replace("CONNECTOR", connector).replace("OPTIONS", text)
    return Case(
        name, "cli", ["run", "--check", "{tmp}/p.yaml"], [r"p\.yaml:\d+:\d+", *says], 2, files={"p.yaml": pipeline}
    )


def _cases() -> Iterator[Case]:
    for (connector, role), needed in _NEEDED.items():
        declared = _side(connector, role)
        for option in declared:
            wrong = _wrong_value(option)
            if wrong is not None and option.name not in needed:
                name = f"option-{connector}-{role}-{option.name}"
                says = [re.escape(option.name), f"{wrong}|not a|one of"]
                yield _case(name, connector, role, {**needed, option.name: wrong}, says)
        known = next(option.name for option in declared if option.name not in needed and len(option.name) > 6)
        typo = known[:-2] + known[-1]
        says = [re.escape(typo), f"did you mean '?{re.escape(known)}"]
        yield _case(f"option-{connector}-{role}-misspelled", connector, role, {**needed, typo: "1"}, says)
        yield _case(
            f"option-{connector}-{role}-unknown", connector, role, {**needed, "zzzzzz": "1"}, ["zzzzzz", "no option"]
        )
        for lacking in needed:
            if any(option.name == lacking and option.required for option in declared):
                rest = {one: text for one, text in needed.items() if one != lacking}
                yield _case(f"option-{connector}-{role}-without-{lacking}", connector, role, rest, [re.escape(lacking)])


CASES = list(_cases())
