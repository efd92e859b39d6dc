"""Transliteration of the embedded language to Chinese characters, three letters each."""

from __future__ import annotations

import re

FIRST = 0x4E00  # first of 20,992 CJK ideographs; there are 27^3 = 19,683 codes
STOPS = str.maketrans(".,?!:;", "\u3002\uff0c\uff1f\uff01\uff1a\uff1b")


def in_chinese(sentence: str) -> str:
    """Transliterate a sentence: one character per three letters, no spaces. The mapping of words is
    one-to-one."""
    words = re.sub("[a-z]+", lambda match: _spell(match[0]), sentence.lower())
    return "".join(words.split()).translate(STOPS)


def _spell(word: str) -> str:
    characters = []
    for start in range(0, len(word), 3):
        code = 0
        for letter in word[start : start + 3].ljust(
            3, "`"
        ):  # the character before "a" is the padding
            code = 27 * code + ord(letter) - ord("`")
        characters.append(chr(FIRST + code))
    return "".join(characters)
