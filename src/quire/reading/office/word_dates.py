"""Dates as Word packs them into a number (DTTM), in DOC and RTF."""

from __future__ import annotations

from datetime import datetime


def packed_date(number: int) -> str:
    """The date as ISO 8601 without a time zone, which Word does not keep; "" where it is none."""
    minute, hour, day = number & 63, number >> 6 & 31, number >> 11 & 31
    month, year = number >> 16 & 15, 1900 + (number >> 20 & 511)
    try:
        return datetime(year, month, day, hour, minute).isoformat() if number else ""
    except ValueError:
        return ""
