"""Functions of users that encode texts, by any library."""

from __future__ import annotations

import importlib
import operator
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from bench.datasets.manifest import check_vectors
from bench.download.hub import retrying
from bench.models.checks import compare
from bench.registry.methods import FAILURES, describe_error
from bench.utils.errors import UserError
from bench.utils.files import sha256_text
from methods.base import text_list

Function = Callable[[list[str]], Any]


def function_of(source: Any, name: str) -> Function:
    """Return a function as it is, of an object (such as a SentenceTransformer) its method `encode`.
    A text `module:function` is imported from Python's path or the present folder."""
    if isinstance(source, str):
        module, _, path = source.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            source = operator.attrgetter(path)(importlib.import_module(module))
        except FAILURES as error:
            raise UserError(
                f"'{name}' cannot be imported ({describe_error(error)}); "
                "run in its folder, or install what it needs"
            ) from error
    # A SentenceTransformer is callable, too, but with tokens.
    if isinstance(source, nn.Module) or not callable(source):
        source = getattr(source, "encode", None)
    if source is None:
        raise UserError(
            f"'{name}' is no function of texts and has no method encode; "
            "pass a function from a list of texts to their vectors"
        )
    return source


class FunctionEncoder:
    """Encodes with a function from a list of texts to an array (n, d) of numpy or torch, of
    floating-point numbers.

    A function without an attribute `identity` may give other vectors in another process: `lasting`
    is False then, and evaluations are not resumed.
    """

    kind = "function"
    is_checked = False  # whether some texts were encoded twice and compared

    def __init__(self, function: Function, name: str) -> None:
        self.function, self.name = function, name
        identity = getattr(function, "identity", None)
        self.lasting = identity is not None
        text = f"{name}\n{identity if self.lasting else uuid.uuid4()}"
        self.identity = f"{self.kind}-{sha256_text(text)[:16]}"

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        texts = text_list(sentences)
        try:
            output = retrying(self.function)(list(texts))  # a function may change it
            if hasattr(output, "detach"):
                output = output.detach().cpu()
                if output.is_floating_point():  # numpy has no bfloat16
                    output = output.float()
            output = np.asarray(output)
        except FAILURES as error:
            reason = describe_error(error)
            blank = ", some of them blank, as in SentEval's files" if "" in texts else ""
            raise UserError(
                f"'{self.name}' failed on {len(texts)} texts{blank} ({reason}); mend it"
            ) from error
        vectors = check_vectors(texts, output)
        if self.is_checked or len(texts) < 2:
            return vectors
        self.is_checked = True
        # Up to eight of the texts, in another order and batch. A function that returns what it
        # computed for the batch before, or that draws dropout, gives them other vectors.
        step = -len(texts) // 8
        remedy = "call model.eval(), fix the random state, and let no vector depend on other texts"
        compare(vectors[::step], self.encode(texts[::step]), "the function", remedy)
        return vectors
