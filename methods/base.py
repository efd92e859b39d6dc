"""Everything that a method imports, as in `from methods.base import Contrastive, Field`."""
# ruff: noqa: F401

from pydantic import Field, model_validator

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
    masked_mean,
    overlay,
    seed_torch,
    separate_dropout,
    stream,
    stream_seed,
    to_device,
    training_mode,
    transformer_with,
)
from methods.contrastive import (
    Contrastive,
    Negatives,
    Queued,
    Terms,
    compose,
    cosine,
    info_nce,
    nt_xent,
    pair_loss,
    refuse_composition,
    weighted,
)
from methods.transform import TARGET, Mapped, Transform, in_chunks
