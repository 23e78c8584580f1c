"""Text of strangers, made safe to show."""

import unicodedata

# Other, control, format (bidirectional marks too), surrogates (of names that are no UTF-8), and line separators.
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str, limit: int | None = None, *, lines: bool = False) -> str:
    r"""Return a text without anything that a terminal, a log or a table could take for a command.

    Parameters
    ----------
    text : str
        Of unknown origin.
    limit : int, optional
        Characters kept.
    lines : bool
        Keep line feeds and tabs, for a log. Otherwise the result is one line.

    Returns
    -------
    str
        Escape codes, line ends, invisible characters and bytes that are no UTF-8 are shown as `\x1b`, `\n`, `\u202e`.
    """
    kept = text if limit is None or len(text) <= limit else text[:limit] + "..."
    if kept.isascii() and kept.isprintable():
        return kept
    plain = "\n\t" if lines else ""
    return "".join(
        character
        if character in plain or unicodedata.category(character) not in _UNSAFE
        else character.encode("unicode_escape").decode("ascii")
        for character in kept
    )
