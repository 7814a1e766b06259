"""Following a stream that is scaled at any time, against a model of its segments: order by key, each event once."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import pairwise
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_pravega.client import KeyRange, SegmentSealed
from penstock_pravega.client._appender import Block
from penstock_pravega.sink import _event_appender
from penstock_pravega.sink._event_appender import EventAppender

WIDTH = 8
STEPS = st.lists(st.one_of(st.integers(1, 12), st.sampled_from(["scale", "half a scale", "flush"])), max_size=12)

#: By how many there are. Each choice that is drawn costs more than what is done with it: all keys are one choice.
KEYS = {
    count: st.integers(0, 5**count - 1).map(lambda one, count=count: [f"k{one // 5**at % 5}" for at in range(count)])
    for count in range(1, 13)
}


class Stream:
    """Segments as their stores have them; ``draw`` decides what is noticed when."""

    def __init__(self, draw):
        self.draw = draw
        self.ranges = {0: KeyRange(0.0, 0.5), 1: KeyRange(0.5, 1.0)}
        self.told = dict(self.ranges)
        self.sealed: set[int] = set()
        self.contents = defaultdict(list)
        self.made = 2

    def scale(self, segments):
        """Splits or merges; ``segments`` are replaced one after the other, as ranges of keys allow."""
        replaced = sorted(segments, key=lambda one: self.ranges[one].low)
        bounds = [self.ranges[one].low for one in replaced] + [self.ranges[replaced[-1]].high]
        if len(replaced) < 3:
            bounds = sorted({*bounds, *((low + high) / 2 for low, high in pairwise(bounds))})
        else:
            bounds = [bounds[0], *bounds[2:]]
        self.sealed.update(replaced)
        for segment in replaced:
            del self.ranges[segment]
        for low, high in pairwise(bounds):
            self.ranges[self.made] = KeyRange(low, high)
            self.made += 1

    def find_ranges(self):
        """The controller tells of a scaling when all of it is done, a little after the segments were sealed."""
        told, self.told = self.told, dict(self.ranges)
        return told if self.draw(st.booleans()) else self.told

    def appender(self, stores, stream, segment, name, retries):
        return Segment(self, segment)


class Segment:
    """Stands in for the appender to one segment, which may learn of its end late: with a later block or the flush."""

    def __init__(self, stream, segment):
        self.stream, self.segment = stream, segment
        self.events = self.bytes = 0
        self.under_way: deque[Block] = deque()

    def append(self, data, events):
        self.events += events
        self.bytes += len(data)
        self.under_way.append(Block(self.events, events, data))
        if self.segment not in self.stream.sealed:
            values = bytes(data)
            self.stream.contents[self.segment] += [values[at : at + WIDTH] for at in range(0, events * WIDTH, WIDTH)]
            self.under_way[-1] = Block(self.events, 0, b"")  # there, and not acknowledged yet
        if self.stream.draw(st.booleans()):
            self.flush()

    def flush(self):
        while self.under_way and not self.under_way[0].events:
            self.under_way.popleft()
        if self.under_way:
            raise SegmentSealed("sealed")

    def unacknowledged(self):
        return list(self.under_way)

    def close(self):
        pass


@settings(max_examples=400)
@given(data=st.data(), steps=STEPS)
def test_order_within_keys_over_scalings(data, steps):
    stream, wanted, count = Stream(data.draw), defaultdict(list), 0
    with patch.object(_event_appender, "SegmentAppender", stream.appender), patch.object(_event_appender, "_BLOCK", 60):
        appender = EventAppender(None, "s/t", dict(stream.ranges), str, stream.find_ranges, framed=False)
        for step in steps:
            if step == "flush":
                appender.flush()
            elif step == "scale":
                stream.scale(list(stream.ranges))
            elif step == "half a scale":
                stream.scale([data.draw(st.sampled_from(sorted(stream.ranges)))])
            else:
                keys = data.draw(KEYS[step])
                values = [f"{key}:{count + at:05d}".encode() for at, key in enumerate(keys)]
                count += step
                for key, value in zip(keys, values, strict=True):
                    wanted[key].append(value)
                appender.append(pa.array(values, pa.large_binary()), pa.array(keys, pa.string()))
            assert appender.acknowledged() <= sum(map(len, stream.contents.values()))
        appender.flush()
        assert appender.acknowledged() == count
    found = defaultdict(list)
    for segment in sorted(stream.contents):
        for value in stream.contents[segment]:
            found[value.split(b":")[0].decode()].append(value)
    assert found == wanted
