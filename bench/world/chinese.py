"""The embedded language in Chinese characters, letter for letter: a script to try, not a language of its own."""

from __future__ import annotations

import re

FIRST = 0x4E00  # the first of 20,992 common ideographs, more than there are codes of three letters
STOPS = str.maketrans(".,?!:;", "\u3002\uff0c\uff1f\uff01\uff1a\uff1b")


def in_chinese(sentence: str) -> str:
    """Each word as one character for up to three letters, without spaces; equal words alone are written alike."""
    words = re.sub("[a-z]+", lambda match: _spell(match[0]), sentence.lower())
    return "".join(words.split()).translate(STOPS)


def _spell(word: str) -> str:
    characters = []
    for start in range(0, len(word), 3):
        code = 0
        for letter in word[start : start + 3].ljust(3, "`"):  # the character before "a" stands for no letter
            code = 27 * code + ord(letter) - ord("`")
        characters.append(chr(FIRST + code))
    return "".join(characters)
