"""What columns and arrays are usually called."""

from __future__ import annotations

import re
from collections.abc import Iterable

# In the order of preference.
LABELS = (
    *("label", "labels", "class", "target", "targets", "y", "category", "sentiment", "gold_label", "gold"),
    *("tag", "topic", "intent", "emotion", "stars", "quality", "species", "outcome", "diagnosis", "classes"),
    *("label_name", "label_text", "class_name", "class_label"),
)
LABEL_ENDS = ("_label", "_labels", "_class", "_target", "_category", "_sentiment", "_topic", "_intent")
IDS = ("id", "uid", "uuid", "guid", "idx", "index", "row_id", "example_id", "__index_level_0__")
TEXTS = (
    *("text", "sentence", "sentence1", "sentence2", "review", "comment", "content", "body", "title"),
    *(
        "message",
        "question",
        "question1",
        "question2",
        "answer",
        "premise",
        "hypothesis",
        "tweet",
        "headline",
    ),
    *("utterance", "query", "description", "document", "news_title", "#1_string", "#2_string"),
)
# What pandas calls a column without a name, into which it wrote its row names.
UNNAMED = "Unnamed: 0"
TITLES = ("title", "headline", "news_title")


def plain(name: str) -> str:
    """A name as it is compared: small letters, underscores for all that separates words.

    >>> plain(" Gold Label"), plain("goldLabel"), plain("ID")
    ('gold_label', 'gold_label', 'id')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s.\-]+", "_", parted).lower()


def label_column(names: Iterable[str]) -> str | None:
    """The name that labels most likely have, or None where none of them fits.

    >>> label_column(["text", "y", "Label"]), label_column(["text", "user_intent"]), label_column(["a", "b"])
    ('Label', 'user_intent', None)
    """
    names = list(names)
    ending = [name for name in names if plain(name).endswith(LABEL_ENDS)]
    found = preferred(names, LABELS) or (ending if len(ending) == 1 else [])
    return found[0] if found else None


def copies_label(name: str) -> bool:
    """Whether a column that is not the label is probably one too, such as the true or the original one."""
    short = plain(name)
    return (
        short in ("label", "labels", "class", "target", "targets", "y", "gold")
        or short.endswith(("_label", "_labels", "_target"))
        or short.startswith("label_")
    )


def like_id(name: str) -> bool:
    """Whether people call a column of ids so."""
    return plain(name) in IDS or plain(name).endswith(("_id", "_uid", "_uuid", "_guid"))


def preferred(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Those of the names that are known, in the order of what is known.

    >>> preferred(["y", "text", "Label"], LABELS)
    ['Label', 'y']
    """
    ranks = {name: rank for rank, name in enumerate(known)}
    return sorted((name for name in names if plain(name) in ranks), key=lambda name: ranks[plain(name)])
