"""Random combinations of all declared options of every connector: each takes effect, is refused, or is warned of."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from suite.option_cases import EXAMPLES, SIDES, cases

SOME = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(SOME, max_examples=3000, derandomize=False)
MORE = pytest.mark.exhaustive("twenty times as many, and others each time; those that are always the same stay")
MODES = ("batch", "stream")
WORD = re.compile(r"[A-Za-z][\w-]*")


@pytest.mark.parametrize("side", SIDES)
def test_every_option_is_accepted_somewhere_and_makes_a_difference(side):
    """With what it needs beside it, each option is accepted in a batch or in a stream, and is seen in what is made."""
    one, problems = cases(side), []
    for option in one.declared:
        if not one.texts(option):
            assert option.name in EXAMPLES.get(side, ()) or option.choices == (option.default,), "give an example"
            continue
        for mode in one.modes(option):
            texts = one.least(option, mode)
            shrug = one.shrug(texts, mode)
            if not one.is_accepted(texts, mode) and not option.ignored:
                shrug = f"not accepted: {one.refusal(texts, mode)}"
            if shrug:
                problems.append(f"{option.name} {mode} {texts}: {shrug}")
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("side", SIDES)
def test_a_batch_and_a_stream_are_made_of_options_alike(side):
    """The mode decides which options are taken, and nothing of what is made: a test of the effect serves both."""
    one = cases(side)
    both = [option for option in one.declared if len(one.modes(option)) == 2 and one.texts(option)]
    assert [o.name for o in both if not one.is_the_same_in_both_modes(one.least(o, "batch"))] == []


@pytest.mark.parametrize("side", SIDES)
def test_words_that_are_read_without_regard_to_case_are_declared(side):
    """Of options that a restart compares: it must not take another spelling of the same word for a change."""
    one, problems = cases(side), []
    for option in one.declared:
        if option.at_restart == "takes effect" or option.kind != "string" or not one.texts(option):
            continue
        for word in sorted({*WORD.findall(option.doc), *option.words, *(other for other, _ in option.choice_aliases)}):
            if option.parse(word.upper()) == option.parse(word.lower()):
                continue
            for mode in one.modes(option):
                texts = one.least(option, mode)
                low, up = {**texts, option.name: word.lower()}, {**texts, option.name: word.upper()}
                without = {name: text for name, text in texts.items() if name != option.name}
                if (
                    one.is_accepted(low, mode)
                    and one.are_the_same(low, up, mode)
                    and not one.are_the_same(low, without, mode)
                ):
                    problems.append(f"{option.name} {mode}: {word}")
    assert not problems, "declare them as Option.words: " + ", ".join(problems)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("profile", [SOME, pytest.param(MANY, marks=MORE)])
def test_combinations_take_effect_or_are_refused_or_warned_of(side, profile):
    """Whatever a user combines: what has no effect is said."""
    one, accepted = cases(side), []

    @profile
    @given(st.data(), st.sampled_from(MODES))
    def holds(data, mode):
        texts = one.drawn(lambda values: data.draw(st.sampled_from(list(values))))
        note(f"{mode} {texts}")
        shrug = one.shrug(texts, mode)
        assert shrug is None, shrug
        accepted.append(one.is_accepted(texts, mode))

    holds()
    assert sum(accepted) > len(accepted) / 5, "hardly a combination is accepted: give examples"
