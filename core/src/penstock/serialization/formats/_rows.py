"""Finding the rows of a batch that do not fit, without losing the speed of whole batches for the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.serialization._malformed import shortened
from penstock.serialization.formats._contracts import Decoded, RecordDecoder

__all__ = ["Misfit", "PartwiseDecoder", "RowErrors", "by_parts", "described", "first_bad_row", "shown", "with_nulls"]

_SHOWN = 100
_PARTS = 8
#: The rows that are parsed one by one where one of them does not fit: the time of a few calls of Arrow's parser.
_FEW = 128

#: The array for rows ``[start, stop)``, or ``None`` if one of them does not fit.
Attempt = Callable[[int, int], "pa.Array | None"]


class Misfit(Exception):
    """A record that can't be decoded, with the reason."""


def by_parts(start: int, stop: int, attempt: Attempt, closer: Callable[[int, int], pa.Array], few: int) -> pa.Array:
    """Returns the array for rows ``[start, stop)``: tried whole, then in eighths; at most ``few`` rows go to
    ``closer``.

    One bad row costs about as much again as the batch, and a closer look at the few around it.
    """
    found: list[pa.Array] = []
    parts = [(start, stop)]
    while parts:
        begin, end = parts.pop()
        array = attempt(begin, end)
        if array is not None:
            found.append(array)
        elif end - begin <= few:
            found.append(closer(begin, end))
        else:
            step = max(few, -(-(end - begin) // _PARTS))
            parts += [(first, min(first + step, end)) for first in range(begin, end, step)][::-1]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


class RowErrors:
    """Reasons by row, of one batch."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}

    def add(self, row: int, reason: str) -> None:
        """Notes why ``row`` can't be decoded; the first reason stays."""
        # A text of JSON may hold half of a surrogate pair, which no string column takes.
        self._reasons.setdefault(row, reason.encode("utf-8", "replace").decode("utf-8"))

    def add_all(self, reasons: pa.Array | None) -> None:
        """Notes the errors of a :class:`Decoded`."""
        if reasons is not None:
            for row in pc.indices_nonzero(reasons.is_valid()).to_pylist():
                self.add(row, reasons[row].as_py())

    def __bool__(self) -> bool:
        """Returns whether a reason was noted."""
        return bool(self._reasons)

    def reason(self, row: int) -> str | None:
        """Returns why ``row`` can't be decoded; ``None`` if nothing was noted."""
        return self._reasons.get(row)

    def array(self, count: int) -> pa.Array | None:
        """Reasons as :class:`Decoded` has them, for ``count`` rows."""
        if not self._reasons:
            return None
        reasons: list[str | None] = [None] * count
        for row, reason in self._reasons.items():
            reasons[row] = reason
        return pa.array(reasons, pa.string())


def with_nulls(values: pa.Array, decode: Callable[[pa.Array], Decoded]) -> Decoded:
    """Returns what ``decode`` makes of the values that are not null, with the nulls back in their places."""
    if not values.null_count:
        return decode(values)
    decoded = decode(values.drop_null())
    present = values.is_valid()
    places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    places = pc.if_else(present, places, None)
    errors = decoded.errors
    return Decoded(decoded.column.take(places), None if errors is None else errors.take(places))


class PartwiseDecoder(RecordDecoder):
    """Parses whole batches, and one by one the few rows around one that is unlike the others."""

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        column = by_parts(
            0,
            len(values),
            lambda start, stop: self._parse(values.slice(start, stop - start)),
            lambda start, stop: self._parse_rows(values.slice(start, stop - start), start, errors),
            _FEW,
        )
        return Decoded(column, errors.array(len(values)))

    @abstractmethod
    def _parse(self, values: pa.Array) -> pa.Array | None:
        """Returns the column of ``values``, which has no nulls; ``None`` if one of them needs a closer look."""

    @abstractmethod
    def _parse_rows(self, values: pa.Array, first: int, errors: RowErrors) -> pa.Array:
        """Returns the column of a few values, and notes in ``errors`` what is wrong; ``first`` is the first's row."""


def first_bad_row(column: pa.Array, encode: Callable[[pa.Array], pa.Array], error: Exception) -> BadDataError:
    """Returns the error for a batch that could not be encoded (``error`` says why): tries row by row for the one to
    blame.
    """
    for row in range(len(column)):
        try:
            encode(column.slice(row, 1))
        except Exception as found:
            return BadDataError(f"row {row} of the batch can't be written: {described(found)}")
    return BadDataError(f"the batch can't be written: {described(error)}")


def described(error: BaseException) -> str:
    """Returns an exception as a reason; without its class where the text says enough."""
    text = str(error)
    if isinstance(error, BadDataError | Misfit):
        return text
    return f"{type(error).__name__}: {text}" if text else repr(error)


def shown(value: object) -> str:
    """Returns a value for a reason, cut to 100 characters."""
    return shortened(str(value), _SHOWN)
