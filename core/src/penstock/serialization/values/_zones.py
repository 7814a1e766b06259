"""Time zones as texts name them."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["check_zone", "zone_of"]

#: What Spark takes for an offset from UTC.
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?:([+-])(?:(\d{1,2})(?::(\d{1,2})(?::(\d{2}))?)?|(\d{2})(\d{2})(\d{2})?))?|Z", re.ASCII
)
#: In upper case: "localtime" and "right/…" are files in the same directory.
_REGION = re.compile(r"[A-Z][A-Za-z0-9_+/-]*")
#: Java's ``ZoneId.SHORT_IDS``, which Spark uses, without those that are zones of the same name in the IANA's database.
_ABBREVIATIONS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def check_zone(name: str) -> None:
    """Checks an option's value. Raises ValueError if ``name`` is not a time zone's."""
    if name != "UTC":
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("an IANA time zone such as Europe/Rome") from None


def zone_of(text: str) -> tzinfo:
    """Returns the zone of a text such as ``Z``, ``+05:41:16``, ``UTC-1`` or ``Europe/Rome``. Raises ValueError."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        try:
            return ZoneInfo(_ABBREVIATIONS.get(text, text) if _REGION.fullmatch(text) else "")
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{text!r} is not a time zone") from None
    sign, *parts = match.groups()
    hours, minutes, seconds = (int(colons or digits or 0) for colons, digits in zip(parts[:3], parts[3:], strict=True))
    if minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is not an offset from UTC")
    return timezone((-1 if sign == "-" else 1) * timedelta(hours=hours, minutes=minutes, seconds=seconds))
