"""A pipeline file is data: no tag, alias or nesting in it runs code, or fails in another way than with a mistake."""

from __future__ import annotations

import pytest

from penstock.cli._check import check_pipeline
from penstock.cli._pipeline import read_pipeline

ran: list[str] = []


def run_me(*_: object) -> str:
    ran.append("it ran")
    return "x"


ME = f"{__name__}.run_me"
#: More than Python's calls can follow; PyYAML takes the square of it.
DEEP = 600
HOSTILE = [
    f"!!python/object/apply:{ME} [x]",
    f"!!python/object/new:{ME} [x]",
    f"!!python/name:{ME}",
    "!!python/object/apply:os.system ['touch pwned']",
    "!!python/module:os",
    "!!python/object:penstock.cli._pipeline.Pipeline {}",
    "!!map [a, b]",
    "!!set {a, b}",
    "!!binary 'aGk='",
    "!!timestamp '2026-01-01'",
    "!include /etc/passwd",
    "!ENV ${HOME}",
    "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch pwned']",
    "&a [*a]",
    "&a {b: *a}",
    "*unknown",
    "[" * DEEP + "]" * DEEP,
    "{a: " * DEEP + "1" + "}" * DEEP,
    "&a [x,x,x,x,x,x,x,x], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b], d: [*c,*c,*c]",
    "\x00",
    "'\\x1b[2J'",
    '"\\x1b[2J\\n\\u202e"',
    "%TAG ! tag:evil,2000:",
]
PLACES = [
    "{}",
    "{{name: {}, source: {{format: rate}}, sink: {{format: noop}}, checkpoint: c}}",
    "{{source: {}, sink: {{format: noop}}, checkpoint: c}}",
    "{{source: {{format: rate, options: {{path: {}}}}}, sink: {{format: noop}}, checkpoint: c}}",
    "{{source: {{format: rate, options: {}}}, sink: {{format: noop}}, checkpoint: c}}",
    "{{source: {{format: rate, schema: {}, watermark: {}}}, sink: {{format: noop}}, checkpoint: c}}",
    "{{source: {{format: {}}}, sink: {{format: noop, mode: {}}}, checkpoint: {}, trigger: {}, spark: {}}}",
    "{{source: {{format: rate}}, sink: {{format: noop}}, checkpoint: c, transform: {}}}",
    "{{source: {{format: rate}}, sink: {{format: noop}}, checkpoint: c, transform: {{python: {}}}}}",
    "{{{}: 1, source: {{format: rate}}, sink: {{format: noop}}, checkpoint: c}}",
]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_in_a_pipeline_file_is_more_than_text(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for hostile in HOSTILE:
        path = tmp_path / "p.yaml"
        path.write_text(place.format(*[hostile] * place.count("{}")), "utf-8")
        pipeline, mistakes = check_pipeline(path)
        assert pipeline is not None or mistakes, hostile
        assert all(len(str(mistake).splitlines()) == 1 for mistake in mistakes), hostile
        if pipeline is not None:
            texts = [pipeline.name, pipeline.checkpoint, pipeline.sinks[0].format, *pipeline.sinks[0].options.values()]
            assert all(type(text) is str for text in [*texts, *pipeline.sources[0].options.values()])
    assert ran == [] and not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if len(text) > DEEP], ids=["lists", "mappings"])
def test_what_is_nested_too_deeply_is_a_mistake(hostile, tmp_path):
    (tmp_path / "p.yaml").write_text(hostile, "utf-8")
    pipeline, (mistake,) = check_pipeline(tmp_path / "p.yaml")
    assert pipeline is None and "nested too deeply" in str(mistake)


def test_a_variable_is_text_whatever_it_holds(tmp_path):
    """What the environment holds is filled in after the file was parsed: it can add no key."""
    path = tmp_path / "p.yaml"
    path.write_text("{source: {format: rate, options: {a: '${X}'}}, sink: {format: noop}, checkpoint: ${X}}")
    text = "x, sink: {format: evil}}\n!!python/name:os.system ${Y} [red]"
    reading = read_pipeline(path, {"X": text})
    assert reading.pipeline is not None and reading.pipeline.sources[0].options == {"a": text}
    assert reading.pipeline.sinks[0].format == "noop" and reading.pipeline.checkpoint.endswith(text)
