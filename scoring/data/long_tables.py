"""Long tables, one row for each measurement, as one row for each stay and time."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars

from scoring.data.columns import Column, as_numbers, counted
from scoring.data.layout import MAX_FEATURES, PATIENT, Layout
from scoring.data.reading import demand, read_table
from utils.errors import UserError


def from_long(
    frame: polars.DataFrame, layout: Layout, path: Path, notes: list[str]
) -> tuple[polars.DataFrame, dict[str, Column], dict[str, str]]:
    """Turn one row per measurement into one row per stay and time. Several values of one cell are averaged."""
    item, value = str(layout.item), str(layout.value)
    demand(frame, path, (item, "--item"), (value, "--value"))
    keys = [name for name in ("admissionid", "time", PATIENT) if name in frame.columns]
    names = frame[item].cast(polars.String)
    if names.null_count():
        notes.append(f"left out: {counted(names.null_count(), 'row')} without an item")
    frame = frame.select(*keys, names.cast(polars.Categorical).alias("item"), polars.col(value).alias("value"))
    frame = frame.filter(polars.col("item").is_not_null() & ~polars.col("item").cast(polars.String).is_in(layout.drop))
    counts = frame.group_by("item").agg(polars.col("admissionid").n_unique().alias("stays"))
    counts = counts.with_columns(polars.col("item").cast(polars.String)).sort(
        ["stays", "item"], descending=[True, False]
    )
    if layout.most is not None and counts.height > layout.most:
        notes.append(
            f"left out: {counts.height - layout.most:,} of {counted(counts.height, 'item')} (--most {layout.most})"
        )
        counts = counts.head(layout.most)
    if counts.height > MAX_FEATURES:
        raise UserError(
            f"the table has {counted(counts.height, 'item')}; keep the most frequent with --most, such as --most 100"
        )
    chosen = sorted(counts["item"].to_list(), key=_item_order)
    frame = frame.filter(polars.col("item").cast(polars.String).is_in(chosen))
    frame, columns = _item_numbers(frame, layout, notes)
    labelled = polars.col("item").cast(polars.String).is_in([name for name, column in columns.items() if column.labels])
    if any(column.labels for column in columns.values()):
        means = frame.lazy().filter(~labelled).group_by(*keys, "item").agg(polars.col("value").mean())
        lasts = (
            frame.lazy().filter(labelled).group_by(*keys, "item", maintain_order=True).agg(polars.col("value").last())
        )
        several = polars.concat([means.collect(), lasts.collect()])
    else:
        several = frame.lazy().group_by(*keys, "item").agg(polars.col("value").mean()).collect(engine="streaming")
    if several.height < frame.height:
        notes.append(
            f"averaged: {counted(frame.height - several.height, 'further value')} of the same stay, time and item"
        )
    del frame
    wide = several.pivot("item", index=keys, values="value", sort_columns=False)
    titles = _titles(chosen, layout, notes)
    wide = wide.select(*keys, *(polars.col(name).alias(titles[name]) for name in chosen))
    return wide, {titles[name]: columns.get(name, Column()) for name in chosen}, {titles[n]: n for n in chosen}


def _item_order(name: str) -> tuple[int, float, str]:
    with contextlib.suppress(ValueError):
        return 0, float(name), name
    return 1, 0.0, name


def _item_numbers(
    frame: polars.DataFrame, layout: Layout, notes: list[str]
) -> tuple[polars.DataFrame, dict[str, Column]]:
    """Turn the values of each item into numbers."""
    if frame["value"].dtype.is_numeric() and not layout.category:
        return frame.with_columns(polars.col("value").cast(polars.Float64)).filter(
            polars.col("value").is_not_null()
        ), {}
    frame = frame.with_columns(polars.col("value").cast(polars.String)).filter(polars.col("value").is_not_null())
    number = polars.col("value").cast(polars.Float64, strict=False)
    text_items = frame.filter(number.is_null())["item"].cast(polars.String).unique().to_list()
    text_items = sorted({*text_items, *layout.category})
    plain = frame.filter(~polars.col("item").cast(polars.String).is_in(text_items)).with_columns(number)
    parts, columns = [plain], {}
    for name, part in _of_items(frame, text_items):
        numbers = part["value"].cast(polars.Float64, strict=False)
        mixed = numbers.null_count() < len(numbers) and name not in layout.category
        if mixed:  # a laboratory's remark among numbers: "haemolysed"
            limit = part["value"].str.contains(r"^\s*[<>≤≥]")
            odd = numbers.is_null() & ~limit
            if odd.any():
                notes.append(
                    f"{name}: left out {counted(int(odd.sum()), 'value')} without a number, "
                    f"such as {str(part['value'].filter(odd)[0])[:30]!r}"
                )
            part = part.filter(~odd)
        values, columns[name] = as_numbers(part["value"], name, name in layout.category)
        parts.append(part.with_columns(values.alias("value")))
    return polars.concat(parts), columns


def _of_items(frame: polars.DataFrame, items: Sequence[str]) -> Iterator[tuple[str, polars.DataFrame]]:
    for name in items:
        yield name, frame.filter(polars.col("item").cast(polars.String) == name)


def _titles(items: Sequence[str], layout: Layout, notes: list[str]) -> dict[str, str]:
    """Return the name of each item. An item without a name keeps its id."""
    if layout.items is None:
        return {name: name for name in items}
    key, label = layout.item_id or str(layout.item), layout.item_name or "label"
    table = read_table(layout.items, notes, None, (key, label), (key, label))
    demand(table, layout.items, (key, "--item_id"), (label, "--item_name"))
    known = dict(zip(table[key].to_list(), table[label].to_list(), strict=True))
    titles = {name: known.get(name) or name for name in items}
    named: dict[str, list[str]] = {}
    for name, title in titles.items():
        named.setdefault(title, []).append(name)
    reserved = {"admissionid", "time", PATIENT}
    return {
        name: f"{title} ({name})" if len(named[title]) > 1 or title in reserved else title
        for name, title in titles.items()
    }
