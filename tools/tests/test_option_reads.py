"""Which attributes are read: what makes, compares or copies an object as a whole does not count."""

from __future__ import annotations

import copy
import pickle

from penstock.retry import RetryPolicy
from suite.option_reads import differences, reads

ONE, OTHER = {"of": [RetryPolicy(7.0)]}, {"of": [RetryPolicy(8.0)]}


def test_only_who_asks_for_the_value_reads_it():
    places = differences(ONE, OTHER)
    assert [kind for kind, _ in places] == [RetryPolicy] and differences(ONE, copy.deepcopy(ONE)) == set()
    ((_, name),) = places
    policy = ONE["of"][0]
    with reads(places) as (found, quiet):
        assert policy != OTHER["of"][0] and repr(policy) and hash(policy) is not None
        again = pickle.loads(pickle.dumps(policy))
        assert quiet(getattr)(again, name) == 7.0 and found == set()
        assert getattr(again, name) == 7.0 and found == places
    assert RetryPolicy.__getattribute__ is object.__getattribute__
