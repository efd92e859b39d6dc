"""Everything that a method imports, as in `from methods.base import Contrastive, Field`."""
# ruff: noqa: F401

from pydantic import Field, model_validator

from methods.compose import compose, refuse_composition
from methods.contract import (
    BASE_DEPTH,
    HOST,
    LABEL,
    LANGUAGE_MODEL,
    MODEL,
    POOLERS,
    SHARED_RECIPE,
    ComputedPooler,
    Context,
    HyperParameters,
    Method,
    Pooler,
    Refusal,
    Shape,
    Step,
    Table,
    Tokens,
    Views,
    check_vocabulary,
    fingerprint,
    frozen_model,
    overlay,
    separate_dropout,
    transformer_with,
)
from methods.contrastive import (
    Contrastive,
    Negatives,
    Queued,
    Terms,
    cosine,
    info_nce,
    nt_xent,
    pair_loss,
    weighted,
)
from methods.streams import seed_torch, stream, stream_seed, to_device
from methods.transform import TARGET, Mapped, Transform, in_chunks
