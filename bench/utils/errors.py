"""`UserError`, `TransientError`, the suggestions and lists of their messages, errors of libraries;
text for terminals."""

import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class UserError(Exception):
    """An error that the user can fix: what is wrong, where, and what to do. The command line prints
    it without a traceback and exits with status 2."""


class TransientError(UserError):
    """An error of the machine or the network, which another attempt may not meet."""


@contextmanager
def errors_of(place: str) -> Iterator[None]:
    """Let the messages of a block's `UserError` begin with a place."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{place}: {error}") from None  # a transient error stays one


def printable(text: str, kept: str = "") -> str:
    """Text for a terminal: signs that are not printable become escapes, besides the `kept` signs.
    Control characters would move its cursor, and marks of direction turn its letters round.

    >>> printable("SS\x1b[2JCL\n")
    'SS\\x1b[2JCL\\n'
    """
    return "".join(
        sign if sign.isprintable() or sign in kept else sign.encode("unicode_escape").decode()
        for sign in text
    )


def warn(message: str, kept: str = "") -> None:
    """Print a line to stderr at once, as `printable` has it. All that `bench` writes there passes
    here."""
    print(printable(message, kept), file=sys.stderr, flush=True)


LISTED = 10  # most names that a message lists; the closest come first if one is meant


def suggestion(word: str, choices: Iterable[str]) -> str:
    """Suggest the closest match of `word` among the choices, or return "" if there is none. Choices
    that begin with it are preferred, such as a run with other keys or another setting.

    >>> suggestion("simsce", ["SimCSE", "SSCL"]), suggestion("score", ["trec"])
    ("; did you mean 'SimCSE'?", '')
    """
    names = {name.lower(): name for name in choices}
    begin = re.split(r"[\[@]", word.lower())[0]
    longer = [name for name in names if name.startswith(begin)]
    # A cutoff of 0.5 suggests nothing for a word that shares only some letters.
    close = difflib.get_close_matches(word.lower(), longer or names, n=1, cutoff=0.5)
    return f"; did you mean '{names[close[0]]}'?" if close else ""


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return the end of an error message: the closest match of `word`, and the choices. Plain names
    come before names with keys, ingredients or a setting.

    >>> did_you_mean("simsce", ["simcse", "sscl"])
    "; did you mean 'simcse'? (known: simcse, sscl)"
    """
    names = sorted(choices, key=lambda name: (bool(re.search(r"[\[+@]", name)), name))
    hint = suggestion(word, names)
    if len(names) > LISTED:
        nearest = difflib.get_close_matches(word, names, n=LISTED, cutoff=0) if hint else names
        names = [*nearest[:LISTED], f"{len(names) - LISTED} more"]
    return f"{hint} (known: {', '.join(names)})" if names else ""


def listed(parts: Iterable[str]) -> str:
    """An enumeration without repetitions: `a`, `a and b`, `a, b and c`."""
    *names, last_name = dict.fromkeys(parts)
    return f"{', '.join(names)} and {last_name}" if names else last_name


def counted(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


# What the CPU allocator, C++, CUDA, cuBLAS, oneDNN (whose "primitive descriptor" is another matter)
# and the loader of libraries say when memory is full.
_MEMORY_FULL = re.compile(
    "can't allocate memory|std::bad_alloc|out of memory|ALLOC_FAILED"
    "|could not create a primitive(?! descriptor)|failed to map segment"
)


def is_memory_full(error: BaseException) -> bool:
    """Return whether an error is one of full memory."""
    return isinstance(error, MemoryError) or bool(_MEMORY_FULL.search(str(error)))


@contextmanager
def library_errors(subject: str, remedy: str) -> Iterator[None]:
    """Turn errors of libraries, and of code that reads foreign files, into `UserError`; errors of
    full memory stay."""
    try:
        yield
    except BaseException as error:
        # Of a tokenizer in Rust; it is no Exception, and its module cannot be imported.
        is_error = isinstance(error, Exception) or repr(error).startswith("PanicException")
        if not is_error or isinstance(error, UserError) or is_memory_full(error):
            raise
        message = str(error).strip().partition("\n")[0]
        raise UserError(f"{subject} ({type(error).__name__}: {message[:200]}); {remedy}") from error
