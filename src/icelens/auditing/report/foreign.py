"""Text of the user's that is to be shown: anything may be in it, and none of it may do anything."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

# Line breaks and tabs mean something in a text. The other control characters would end a file for some
# readers or drive a terminal; they become the pictures that Unicode has for them.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_LONE = re.compile("[\ud800-\udfff]")
# They reorder what stands around them.
_DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def shown(text: object, length: int) -> str:
    """A text that can be written to a file and shown: no control characters, no halves of characters.

    >>> shown("a\\x00b\\r\\nc", 10)
    'a␀b\\nc'
    """
    clean = str(text)[: length + 1].replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)
    clean = _LONE.sub("\ufffd", clean)
    return clean if len(clean) <= length else clean[: length - 1].rstrip() + "…"


def one_line(text: object, length: int = 80) -> str:
    """A name on one line that leaves the order of what stands beside it alone.

    >>> one_line("very\\nhappy", 8), one_line(" ")
    ('very ha…', '(empty)')
    """
    # What is folded away below cannot count: a name may begin with a thousand spaces.
    clean = " ".join(_DIRECTIONS.sub("", shown(text, 50 * length)).split())
    return shown(clean, length) or "(empty)"


def isolated(name: str) -> str:
    """A name within a sentence: one that runs from right to left would turn the words behind it about."""
    turns = any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in name)
    return f"\u2068{name}\u2069" if turns else name


def script_json(value: Any) -> str:
    r"""JSON that can stand in a <script> element: nothing in it ends the element or a line.

    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
