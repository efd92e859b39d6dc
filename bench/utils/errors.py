"""The one error a user may see."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can mend.

    The message is one sentence (or two) that names the thing and the remedy; the command line prints it without a
    traceback and exits with status 2.
    """


LISTED = 10  # names that a message lists; of more, the most alike


def suggestion(word: str, known: Iterable[str]) -> str:
    """Say which of `known` was probably meant; nothing where none is like it.

    Of runs, one with other keys or another setting is more like it than another method; so is a name whose initials it
    is.

    >>> suggestion("simsce", ["simcse", "sscl"])
    "; did you mean 'simcse'?"
    >>> suggestion("dclr", ["dclr[epochs=1]", "sscl"])
    "; did you mean 'dclr[epochs=1]'?"
    >>> suggestion("lr", ["learning_rate", "pooler"])
    "; did you mean 'learning_rate'?"
    >>> suggestion("", ["paper", "official"])
    ''
    """
    alike = {name.lower(): name for name in sorted(known)}
    same = [name for name in alike if _bare(word.lower()) in (_bare(name), _initials(name))]
    close = difflib.get_close_matches(word.lower(), same or alike, n=1, cutoff=0.0 if same else 0.5)
    return f"; did you mean '{alike[close[0]]}'?" if close else ""


def _bare(run: str) -> str:
    """A run's text without keys and setting."""
    return re.sub(r"\[[^]]*\]|@.*", "", run)


def _initials(name: str) -> str:
    """Those of a name of several words; a single one as it is."""
    initials = "".join(re.findall(r"(?:^|(?<=[_-]))[a-z]", name))
    return initials if len(initials) > 1 else name


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Say which of `known` was probably meant, and which there are, as the end of an error message.

    >>> did_you_mean("simsce", ["simcse", "sscl"])
    "; did you mean 'simcse'? (known: simcse, sscl)"
    """
    known = sorted(known)
    meant = suggestion(word, known)
    if len(known) > LISTED:
        known = [*difflib.get_close_matches(word, known, n=LISTED, cutoff=0), f"{len(known) - LISTED} more"]
    return f"{meant} (known: {', '.join(known)})" if known else ""
