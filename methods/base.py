"""Everything that a method imports: `from methods.base import Contrastive, ContrastiveHyper, ...`.

`methods.contract` defines the contract, `methods.contrastive` the formula and its slots,
`methods.transform` maps of finished vectors, `methods.compose` what `+` means, and
`methods.streams` the random streams.
"""
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
    Mark,
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
    transformer_with,
)
from methods.contrastive import (
    Contrastive,
    ContrastiveHyper,
    Negatives,
    Queued,
    cosine,
    enqueue,
    info_nce,
    nt_xent,
)
from methods.streams import seed_torch, stream, stream_seed, to_device
from methods.transform import TARGET, Mapped, Transform, TransformHyper, in_chunks
