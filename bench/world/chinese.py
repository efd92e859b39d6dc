"""Transliteration of the embedded language to Chinese characters, three letters each."""

from __future__ import annotations

import re

FIRST = 0x4E00  # first of 20,992 CJK ideographs; there are 27^3 = 19,683 codes
STOPS = str.maketrans(".,?!:;", "\u3002\uff0c\uff1f\uff01\uff1a\uff1b")


def in_chinese(sentence: str) -> str:
    """Transliterate a sentence, without spaces. The mapping of words is one-to-one."""
    text = re.sub("[a-z]{1,3}", _character, sentence.lower())
    return "".join(text.split()).translate(STOPS)


def _character(letters: re.Match[str]) -> str:
    # The padding is the character before "a".
    high, middle, low = (ord(letter) - ord("`") for letter in letters[0].ljust(3, "`"))
    return chr(FIRST + 27 * (27 * high + middle) + low)
