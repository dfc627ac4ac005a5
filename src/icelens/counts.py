"""Numbers with what they count, as people say them."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def one_or_more(number: int, one: str, more: str) -> str:
    """The word that fits a number, where the number itself stands elsewhere: `is` or `are`.

    >>> one_or_more(1, "is", "are"), one_or_more(0, "is", "are")
    ('is', 'are')
    """
    return one if number == 1 else more
