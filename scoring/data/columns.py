"""Columns of text as numbers: decimal commas, detection limits, yes and no, categories, and times as hours."""

from dataclasses import dataclass, field
from typing import Any

import polars

from utils.errors import UserError

NULL_TOKENS = (
    "",
    "NA",
    "N/A",
    "n/a",
    "NULL",
    "null",
    "None",
    "none",
    "nan",
    "NaN",
    "-nan",
    "-NaN",
    "#N/A",
    "<NA>",
    ".",
)
MAX_CATEGORIES = 50
_TRUE = ("true", "t", "yes", "y", "ja", "oui", "si", "wahr", "positive", "pos")
_FALSE = ("false", "f", "no", "n", "nein", "non", "falsch", "negative", "neg")
_LIMIT = r"^\s*(?:<=|>=|<|>|≤|≥)\s*"
_COMMA_NUMBER = r"^[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+$"
_POINT_NUMBER = r"^[+-]?\d*\.\d+(?:[eE][+-]?\d+)?$"
_ISO = r"^\d{4}-\d{2}-\d{2}"
_ZONE = r"(?:Z|[+-]\d{2}:?\d{2})$"
_CLOCK = r"^\d+:\d{2}(?::\d{2})?$"
_HOUR = 3600.0


def counted(number: int, noun: str) -> str:
    """Return "1 row", "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass
class Column:
    """How a column of the source is held as numbers, so that a release can be written as the source was.

    Attributes
    ----------
    kind : "number", "whole number", "yes/no", "category" or "time"
    labels : list of str
        The text of each code, 0 first. Empty for numbers.
    notes : list of str
        What the reader of the table should know.
    """

    kind: str = "number"
    labels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON without the notes."""
        return {"kind": self.kind, "labels": self.labels} if self.labels else {"kind": self.kind}


def cleaned(column: str) -> polars.Expr:
    """Return the column's text without spaces around it, null where nothing was measured."""
    text = polars.col(column).cast(polars.String).str.strip_chars()
    return polars.when(~text.is_in(NULL_TOKENS)).then(text)


def decimal_comma(text: polars.DataFrame, decimal: str | None) -> bool:
    """Say whether numbers are written with a decimal comma.

    Parameters
    ----------
    text : polars.DataFrame
        Cleaned columns of text that are not all numbers.
    decimal : "comma", "point" or None
        What the user said.

    Raises
    ------
    UserError
        If the user did not say and both forms occur.
    """
    if decimal is not None:
        return decimal == "comma"
    comma = any(text[name].str.contains(_COMMA_NUMBER).any() for name in text.columns)
    point = comma and any(text[name].str.contains(_POINT_NUMBER).any() for name in text.columns)
    if point:
        raise UserError("some numbers have a decimal comma and others a decimal point; say which with --decimal")
    return comma


def with_points(text: polars.Series) -> polars.Series:
    """Write numbers with a decimal comma (`1.234,5`) with a decimal point (`1234.5`)."""
    swapped = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return swapped.zip_with(text.str.contains(_COMMA_NUMBER).fill_null(False), text)


def as_numbers(text: polars.Series, name: str, category: bool = False) -> tuple[polars.Series, Column]:
    """Turn cleaned text into float64.

    Parameters
    ----------
    text : polars.Series of String
        Null where missing.
    name : str
        The column's name, for messages.
    category : bool
        Whether the user said that the column is a category, so that numbers in it are labels.

    Returns
    -------
    values : polars.Series of Float64
        `<0.9` is 0.9, yes is 1 and no is 0, categories are numbered in alphabetical order from 0.
    column : Column

    Raises
    ------
    UserError
        If the column mixes numbers and text, has an infinite value, or over 50 different texts.
    """
    numbers = text.cast(polars.Float64, strict=False)
    if not category:
        limits = numbers.is_null() & text.str.contains(_LIMIT).fill_null(False)
        if limits.any():
            at_limit = text.str.replace(_LIMIT, "").cast(polars.Float64, strict=False)
            numbers = numbers.zip_with(~limits, at_limit)
        rest = text.filter(numbers.is_null() & text.is_not_null())
        if not len(rest):
            if numbers.is_infinite().any():
                row = int(numbers.is_infinite().arg_max() or 0)
                raise UserError(f"column '{name}', row {row + 1} is infinite; leave it empty")
            notes = []
            if limits.any():
                notes.append(
                    f"{name}: {counted(int(limits.sum()), 'value')} beyond a limit, such as '<0.9', became the limit"
                )
            return numbers, Column(_number_kind(numbers), notes=notes)
        if len(rest) < text.len() - text.null_count():
            row = int((numbers.is_null() & text.is_not_null()).arg_max() or 0)
            raise UserError(
                f"column '{name}', row {row + 1} is not a number, others are: {str(text[row])[:40]!r}; correct it, or "
                f"say --category {name} if numbers are labels there, or --drop {name}"
            )
    lower = text.str.to_lowercase()
    distinct = set(lower.drop_nulls().unique())
    if not category and distinct <= {*_TRUE, *_FALSE} and not distinct <= {"f"}:
        answers = lower.is_in(_TRUE).cast(polars.Float64).zip_with(lower.is_not_null(), polars.Series([None]))
        labels = [_spelling(text, lower, _FALSE, "no"), _spelling(text, lower, _TRUE, "yes")]
        return answers, Column("yes/no", labels, [f"{name}: 0 is '{labels[0]}', 1 is '{labels[1]}'"])
    labels = sorted(map(str, text.drop_nulls().unique()))
    if len(labels) > MAX_CATEGORIES:
        raise UserError(
            f"column '{name}' holds {len(labels):,} different texts, such as {labels[0][:40]!r}; "
            f"leave it out with --drop {name}"
        )
    codes = text.replace_strict({label: float(i) for i, label in enumerate(labels)}, return_dtype=polars.Float64)
    coding = ", ".join(f"{i} is '{label[:30]}'" for i, label in enumerate(labels[:10]))
    return codes, Column("category", labels, [f"{name}: {coding}{', ...' if len(labels) > 10 else ''}"])


def as_times(text: polars.Series, name: str, time_format: str | None = None) -> tuple[polars.Series, bool]:
    """Turn cleaned text into hours.

    Parameters
    ----------
    text : polars.Series of String
        Plain numbers (kept as they are), `HH:MM`, or ISO dates and times with or without a zone.
    name : str
        The column's name, for messages.
    time_format : str, optional
        A `strftime` form for dates that are not ISO, such as `%d.%m.%Y %H:%M`.

    Returns
    -------
    hours : polars.Series of Float64
    absolute : bool
        Whether the times are dates, so that hours count from 1970 and not from an admission.

    Raises
    ------
    UserError
        If a time cannot be read, or some have a zone and others do not.
    """
    if time_format is not None:
        return _checked(text, _hours(text.str.to_datetime(time_format, strict=False)), name), True
    distinct = text.unique(maintain_order=True)
    if len(distinct) < text.len() // 2:  # one clock time or date stands in many rows
        hours, absolute = as_times(distinct, name)
        return text.replace_strict(distinct, hours, return_dtype=polars.Float64), absolute
    numbers = text.cast(polars.Float64, strict=False)
    if numbers.null_count() == text.null_count():
        return numbers, False
    if text.str.contains(_CLOCK).fill_null(True).all():
        parts = text.str.split(":")
        hours = _clock_part(parts, 0) + _clock_part(parts, 1) / 60 + _clock_part(parts, 2) / _HOUR
        return hours.zip_with(text.is_not_null(), polars.Series([None], dtype=polars.Float64)), False
    if not text.str.contains(_ISO).any():
        row = int((numbers.is_null() & text.is_not_null()).arg_max() or 0)
        raise UserError(
            f"column '{name}', row {row + 1} is not a number, not HH:MM and not an ISO time: {str(text[row])[:40]!r}; "
            "name its form with --time_format, such as '%d.%m.%Y %H:%M'"
        )
    zoned = text.str.contains(_ZONE)
    if zoned.any() and not zoned.fill_null(True).all():
        raise UserError(f"column '{name}' holds times with a zone and times without one; write all of them alike")
    plain = text.str.replace(" ", "T", literal=True)
    if zoned.any():
        plain = plain.str.replace(r"Z$", "+00:00").str.replace(r"([+-]\d{2})(\d{2})$", "$1:$2")
        forms = ["%Y-%m-%dT%H:%M:%S%.f%:z", "%Y-%m-%dT%H:%M%:z"]
        parsed = [plain.str.to_datetime(form, strict=False, time_zone="UTC", time_unit="us") for form in forms]
    else:
        forms = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"]
        parsed = [plain.str.to_datetime(form, strict=False, time_unit="us") for form in forms]
        parsed.append(plain.str.to_date("%Y-%m-%d", strict=False).cast(polars.Datetime("us")))
    hours = _hours(parsed[0])
    for further in parsed[1:]:
        hours = hours.zip_with(hours.is_not_null(), _hours(further))
    return _checked(text, hours, name), True


def _clock_part(parts: polars.Series, place: int) -> polars.Series:
    return parts.list.get(place, null_on_oob=True).cast(polars.Float64).fill_null(0)


def _hours(times: polars.Series) -> polars.Series:
    return times.dt.epoch("us").cast(polars.Float64) / (_HOUR * 1e6)


def _checked(text: polars.Series, hours: polars.Series, name: str) -> polars.Series:
    wrong = hours.is_null() & text.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise UserError(
            f"column '{name}', row {row + 1} is not a time of the form of the others: {str(text[row])[:40]!r}"
        )
    return hours


def _number_kind(numbers: polars.Series) -> str:
    seen = numbers.drop_nulls().drop_nans()
    return "whole number" if len(seen) and (seen == seen.round()).all() else "number"


def _spelling(text: polars.Series, lower: polars.Series, words: tuple[str, ...], otherwise: str) -> str:
    """Return how the source writes one of `words`."""
    found = text.filter(lower.is_in(words))
    return str(found[0]) if len(found) else otherwise
