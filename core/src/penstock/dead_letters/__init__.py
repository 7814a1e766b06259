"""Dead letters: the one form in which records that can't be decoded, and rows that can't be written, are kept.

A source marks a bad record with a letter, in a column of its own; the sink sends letters to a place of their own,
decided together with the other rows.
"""

from penstock.dead_letters._forms import AS_COLUMNS, AS_JSON, AS_RECORDS, LetterForm, LetterReturn, rows_as_json
from penstock.dead_letters._letter import (
    CONNECT_EXCEPTION_CLASS,
    CONNECT_HEADERS,
    HEADERS_TYPE,
    LETTER_COLUMN,
    LETTER_DDL,
    LETTER_SCHEMA,
    LETTER_TYPE,
    TIMESTAMP_HEADER,
    is_letter_type,
    letters,
)

__all__ = [
    "AS_COLUMNS",
    "AS_JSON",
    "AS_RECORDS",
    "CONNECT_EXCEPTION_CLASS",
    "CONNECT_HEADERS",
    "HEADERS_TYPE",
    "LETTER_COLUMN",
    "LETTER_DDL",
    "LETTER_SCHEMA",
    "LETTER_TYPE",
    "TIMESTAMP_HEADER",
    "LetterForm",
    "LetterReturn",
    "is_letter_type",
    "letters",
    "rows_as_json",
]
