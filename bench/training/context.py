"""The context of a run: its inputs and its backbone, for the method."""

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bench.datasets import corpora
from bench.datasets.word_vectors import load_words
from bench.evaluation.scoring import vectors_of
from bench.models.encoder import Encoder, TransformerEncoder, tokenized
from bench.models.float32 import ELSEWHERE, TRAINING, float32_products
from bench.models.fused_forward import FusedLayers, is_fused
from bench.models.load import find_model, load_encoder, load_transformer
from bench.models.packed_forward import Batch, States, forward
from bench.models.pooling import BY_NAME
from bench.models.transformer import (
    load_language_head,
    load_masked_language_model,
    load_tokenizer,
    longest_input,
    stored_pooler,
    token_ids,
    without_pooler,
)
from bench.registry.backbones import BACKBONE, NO_BACKBONE
from bench.runs.paths import Files, tokens_folder
from bench.runs.run import HEADED, WITH_POOLER, Recipe, Run
from bench.training.checkpoint import trained_encoder
from bench.utils.errors import UserError, errors_of
from bench.utils.progress import Progress
from methods.base import (
    Context,
    Refusal,
    Tokens,
    Views,
    check_vocabulary,
    seeded,
    stream,
    stream_seed,
    training_mode,
)
from methods.projection import Affine

# Rows of a block of products, which takes 64 MB in float64.
QUERIES, KEYS = 1024, 8192
LEAST = torch.iinfo(torch.int64).min
DECIMALS = 12  # equal vectors have equal cosines on every machine (docs/reference/protocol.md#sts)


def nearest_rows(vectors: np.ndarray, count: int, device: str = "cpu") -> np.ndarray:
    """Return the `count` nearest other rows of each row by cosine, nearest first: int64 (n, count).

    Cosines are rounded to 1e-12; ties are ordered by row. A row of zeros has cosine 0 with every
    other row.
    """
    n, table = len(vectors), torch.from_numpy(vectors).to(device)
    if not 0 < count < n:
        raise UserError(
            f"{count} neighbours of each of {n} rows are not possible; ask for 1 to {n - 1}"
        )
    lengths = torch.linalg.vector_norm(table, dim=1, keepdim=True, dtype=torch.float64)
    scales = torch.where(lengths > 0, 1 / lengths, 0.0)

    def unit(rows: Tensor) -> Tensor:
        return table[rows].double() * scales[rows]

    rows = torch.arange(n, device=device)
    blocks = []
    progress = Progress(n, "neighbours")
    for queries in rows.split(QUERIES):
        units, best = unit(queries), queries.new_full((len(queries), count), LEAST)
        for keys in rows.split(KEYS):
            # Whole numbers by cosine, then by row: of equal cosines the lowest row is largest.
            ranks = (units @ unit(keys).T).mul_(10**DECIMALS).round_().long().mul_(n).sub_(keys)
            # A row is no neighbour of itself.
            ranks.masked_fill_(queries.unsqueeze(1) == keys, LEAST)
            best = torch.cat([best, ranks], dim=1).topk(count).values
        blocks.append(best.neg() % n)
        progress.advance(len(queries))
    return torch.cat(blocks).cpu().numpy()


class Head(nn.Sequential):
    """SimCSE's training head: a dense layer with tanh, shared by all views
    (docs/reference/training.md#vectors); weights from N(0, 0.02), of the stream `name`, bias 0."""

    def __init__(
        self, width: int, seed: int, dimension: int | None = None, name: str = "head"
    ) -> None:
        dense = nn.Linear(width, dimension or width)
        nn.init.normal_(dense.weight, std=0.02, generator=stream(seed, name))
        nn.init.zeros_(dense.bias)
        super().__init__(dense, nn.Tanh())


def first_layers(model: Any, count: int | None) -> Any:
    """The first `count` layers of a transformer, sharing its weights where they are now; None: the
    transformer itself."""
    if count is None:
        return model
    weights = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    cut = copy.deepcopy(model, weights)  # new modules, the same tensors
    stacks = [module for module in cut.modules() if isinstance(module, nn.ModuleList)]
    layers = next(stack for stack in stacks if len(stack) == cut.config.num_hidden_layers)
    del layers[count:]
    cut.config.num_hidden_layers = count
    return cut


class RunContext(Context):
    """The inputs and the backbone of a run, for its method and for the loop. Large inputs are read
    on first use. Methods of `Context` are described there."""

    def __init__(self, run: Run, files: Files, device: str) -> None:
        self.run, self.files, self.device = run, files, device
        self.seed, self.shape = run.seed or 0, run.shape
        self._dev_tokens: dict[str, list[int]] = {}  # of sentences of the dev sets
        self._fused: dict[nn.Module, FusedLayers] = {}  # of the models that run on a GPU
        # By name; transforms check their corpus before the training and use it after.
        self._corpora: dict[str | None, list[str]] = {}

    def sentences(self, corpus: str | None = None) -> Sequence[str]:
        """Return the training corpus, cut to the recipe's `sentences` and `distinct` ones, or all
        of another corpus."""
        if corpus not in self._corpora:
            file = self.files.corpus(corpus or self.run.corpus)
            recipe = Recipe() if corpus else self.run.recipe
            self._corpora[corpus] = corpora.read_sentences(file, recipe.sentences, recipe.distinct)
        return self._corpora[corpus]

    def documents(self) -> Sequence[range]:
        return corpora.read_documents(self.files.corpus(self.run.corpus), len(self.sentences()))

    def triples(self) -> Sequence[Sequence[int]]:
        return corpora.read_triples(self.files.corpus(self.run.corpus), self.sentences())

    def tokens(self) -> Sequence[Sequence[int]]:
        """Return the token ids of the training corpus, truncated to the recipe's `max_length`."""
        return self._tokens

    def tokenize(self, sentences: Sequence[str], max_length: int | None = None) -> Tokens:
        """Return token ids with special tokens, at most the backbone's longest input."""
        longest = longest_input(self.backbone, self.tokenizer)
        return token_ids(self.tokenizer, sentences, min(max_length or longest, longest))

    @cached_property
    def _tokens(self) -> Tokens:
        longest = min(self.run.recipe.max_length, longest_input(self.backbone, self.tokenizer))
        return tokenized(self.sentences(), self.tokenizer, longest, tokens_folder(self.files.suite))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        backbone, recipe = self.run.pretrained, self.run.recipe
        if backbone == NO_BACKBONE:
            return None, None
        if backbone.kind == "words":
            return load_words(backbone.table(), backbone.name, backbone.shape.width), None
        pooler = self.run.evaluation_pooler
        encoder = load_transformer(backbone.folder(), pooler, self.device, recipe.dropout)
        # Cut only now: the checks need the model as its folder describes it.
        return first_layers(encoder.model, recipe.layers), encoder.tokenizer

    @property
    def backbone(self) -> Any:
        return self._loaded[0]

    @property
    def tokenizer(self) -> Any:
        return self._loaded[1]

    @cached_property
    def training_head(self) -> nn.Module:
        recipe, width = self.run.recipe, self.run.pretrained.shape.width
        if recipe.pooler not in HEADED:
            return nn.Identity()
        layers: list[nn.Module] = []
        if recipe.pooler in WITH_POOLER:
            # Where the checkpoint stores no pooler (RoBERTa), its weights are random.
            pooler = Head(width, self.seed, name="pooler")
            stored = stored_pooler(self.run.pretrained.folder())
            if stored:
                pooler[0].load_state_dict(stored)
            layers += pooler
        if recipe.pooler != "cls_pooler":
            layers += Head(width, self.seed, recipe.dimension)
        return nn.Sequential(*layers).to(self.device)

    @cached_property
    def scored_backbone(self) -> Any:
        return first_layers(self.backbone, self.run.recipe.scored_layers)

    def modules(self) -> list[nn.Module]:
        """The modules that are trained beside the method itself."""
        transformer = self.run.pretrained.kind == "transformer"
        return [self.backbone, self.training_head] if transformer else []

    def start_from(self, model: str) -> None:
        """Take the weights of another checkpoint, its pooler's too where the head has it."""
        headed = self.run.recipe.pooler in WITH_POOLER
        source: Any = self.load_encoder(model, "cls" if headed else "cls_before_pooler")
        pooler: Any = getattr(source.model, "pooler", None)
        source.model.pooler = None
        try:
            self.backbone.load_state_dict(source.model.state_dict())
        except RuntimeError:
            raise Refusal(
                f"'{model}' has other layers than the backbone; name another start"
            ) from None
        if headed:
            self.training_head[0].load_state_dict(pooler.dense.state_dict())  # type: ignore[index]

    def copy_backbone(self, fresh: str | None = None) -> Any:
        if fresh is None:
            return copy.deepcopy(self.backbone)
        with seeded(stream_seed(self.seed, fresh)):
            config = copy.deepcopy(self.backbone.config)
            model_class = type(self.backbone)
            return model_class(config, **without_pooler(model_class)).to(self.device)

    def masked_language_head(self) -> nn.Module:
        return load_language_head(self.run.pretrained.folder(), self.backbone).to(self.device)

    def load_masked_language_model(self, model: str) -> nn.Module:
        """Load a transformer with its masked-language head, frozen; "backbone" names the initial
        checkpoint of the run."""
        if model == BACKBONE:
            folder = self.run.pretrained.folder()
        else:
            folder = find_model(model)
            check_vocabulary(model, load_tokenizer(folder), self.tokenizer)
        return load_masked_language_model(folder).requires_grad_(False).to(self.device)

    def guesses(self, model: nn.Module, tokens: Tokens) -> Tensor:
        batch = Batch.of(tokens, self.tokenizer.pad_token_id, self.device)
        with torch.no_grad(), self.autocast():
            return model(input_ids=batch.ids, attention_mask=batch.mask).logits.argmax(dim=-1)

    def states(
        self,
        tokens: Tokens,
        model: nn.Module | None = None,
        *,
        positions: int | None = None,
        **inputs: Any,
    ) -> tuple[States, Tensor]:
        """Return the states (n, length, width) of the embeddings and all layers, and the mask, of
        `model` or the backbone. `inputs` are further ones, e.g. `position_ids`; `positions` pads to
        that length and computes the states of padding, too."""
        chosen = model or self.backbone
        batch = Batch.of(tokens, self.tokenizer.pad_token_id, self.device, positions)
        if positions is None and is_fused(chosen, self.device):
            if chosen not in self._fused:
                self._fused[chosen] = FusedLayers(chosen, self.dtype)
            with self.products():
                fused = self._fused[chosen]
                return forward(chosen, batch, fused=fused, **inputs), batch.mask
        with self.autocast(), self.products():
            return forward(chosen, batch, **inputs), batch.mask

    def head(self, vectors: Tensor) -> Tensor:
        """Apply the training head to vectors (n, d), if the pooler has one."""
        with self.products():
            return self.apply(self.training_head, vectors)

    def apply(self, module: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return the output of a module, whose products have the recipe's precision."""
        with self.autocast():
            output = module(*inputs)
        # Cosine, softmax and cross-entropy are computed in float32
        # (docs/reference/training.md#optimisation).
        return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output

    def embed(
        self,
        views: Sequence[Tokens],
        extras: Mapping[str, Sequence[Tokens]] | None = None,
        model: nn.Module | None = None,
        all_tokens: bool = False,
        dropout: bool = True,
    ) -> Views:
        """Encode lists of n token sequences in one forward pass, with the recipe's pooler and head,
        in float32. `all_tokens` computes all tokens of the last layer, even if the pooler reads
        only the first; without `dropout` nothing is drawn."""
        extras = extras or {}
        rows = [*views, *chain.from_iterable(extras.values())]
        # Interleaved: s1, s1, s2, s2, ... (docs/reference/training.md#batches)
        tokens = list(chain.from_iterable(zip(*rows, strict=True)))
        pooler, chosen = BY_NAME[self.run.evaluation_pooler], model or self.backbone
        first_only = pooler.first and not all_tokens
        with contextlib.nullcontext() if dropout else training_mode(chosen, False):
            states, mask = self.states(
                tokens, chosen, positions=pooler.positions, first_only=first_only
            )

        def at_layer(layer: int) -> list[Tensor]:
            with self.autocast():
                pooled = pooler.of(states[: layer + 1], mask)
            vectors = self.head(pooled)
            return [vectors[row :: len(rows)] for row in range(len(rows))]

        vectors, count = at_layer(len(states) - 1), len(views)
        remaining = iter(vectors[count:])
        by_name = {name: [next(remaining) for _ in lists] for name, lists in extras.items()}
        return Views(vectors[:count], lambda layer: at_layer(layer)[:count], by_name, states)

    @property
    def device_type(self) -> str:
        """`cpu` or `cuda`, without a number."""
        return self.device.partition(":")[0]

    @property
    def on_gpu(self) -> bool:
        return self.device_type == "cuda"

    @property
    def dtype(self) -> torch.dtype:
        """The type of products at the recipe's precision."""
        if self.run.recipe.precision == "mixed":
            return torch.float16 if self.on_gpu else torch.float32
        return getattr(torch, self.run.recipe.precision)

    def autocast(self) -> Any:
        """A block whose products have the recipe's precision."""
        return torch.autocast(
            self.device_type,
            dtype=self.dtype,
            enabled=self.dtype != torch.float32,
            # Cast weights would outlive a step where a block of autocast stands open around it.
            cache_enabled=False,
        )

    def products(self) -> Any:
        """Set the products of models in training, forwards and backwards."""
        return float32_products(TRAINING if self.dtype == torch.float32 else ELSEWHERE)

    def encoder(self, pooler: str | None = None) -> Any:
        """Return an Encoder of the backbone: as the recipe scores it, or with this pooler."""
        if pooler == "cls":  # stored in the checkpoint, and never trained
            folder = self.run.pretrained.folder()
            return TransformerEncoder.load(folder, {"pooler": pooler}, device=self.device)
        if pooler:
            return self._join(self.backbone, pooler)
        encoder = self._join(self.scored_backbone, self.run.evaluation_pooler)
        if self.run.recipe.dimension is None:
            return encoder
        weight, bias = self.training_head.parameters()
        return Affine(encoder, {"weight": weight, "bias": bias}, self.device, tanh=True)

    def _join(self, model: Any, pooler: str) -> TransformerEncoder:
        # Another pooler may cut sentences elsewhere.
        cached = self._dev_tokens if pooler == self.run.evaluation_pooler else None
        return TransformerEncoder(model, self.tokenizer, pooler, cached_tokens=cached)

    def remember(self, sentences: Sequence[str]) -> None:
        """Tokenize the sentences of the dev sets once, since each selection encodes them."""
        if self.run.pretrained.kind == "transformer":
            encoder = self._join(self.backbone, self.run.evaluation_pooler)
            self._dev_tokens.update(zip(sentences, encoder.tokenize(sentences), strict=True))

    def load_encoder(
        self,
        model: str,
        pooler: str | None = None,
        **options: Any,
    ) -> Any:
        """Load another, frozen Encoder, with options of `bench.models.load.load_encoder`. The
        defaults are its stored pooler and prompt ("": none)."""
        options |= {"pooler": pooler, "device": self.device}
        needed = self.run.needs.get(model)
        if needed:
            with errors_of(f"'{self.run.method}'"):
                return trained_encoder(self.files.suite, needed.id, **options)
        return load_encoder(model, **options)

    def encode(self, encoder: Encoder, sentences: Sequence[str]) -> np.ndarray:
        """Return float32 numpy (n, d); each distinct sentence is encoded once."""
        return vectors_of(encoder, sentences)(sentences)

    def encode_tokens(self, encoder: Any, tokens: Tokens) -> np.ndarray:
        """Return float32 numpy (n, d) of token sequences; the encoder is one of `encoder`."""
        return encoder.encode_tokens(tokens)

    def neighbours(self, vectors: np.ndarray, count: int) -> np.ndarray:
        return nearest_rows(vectors, count, self.device)
