"""Toy backbones, pre-trained on the toy data by masked language modelling, and word vectors.

The recipe is a scaled-down BERT (Devlin et al., 2019): 15 % of the tokens are predicted, of which
80 % are masked, 10 % replaced by a random token and 10 % kept. There is no next-sentence prediction
and so no pooler, as in RoBERTa (Liu et al., 2019). Word embeddings are initialised from
co-occurrence counts.

The shipped backbones are of this recipe, with other draws: their batches were of similar lengths.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from bench.utils.progress import Progress
from bench.world import world_data_folder
from tools.world.data import in_chinese

# Shape and schedule of a toy backbone; pre-training takes about half an hour on one core. With a
# tenth of the steps, it learns the topics of the world but little of their events.
LAYERS, WIDTH, HEADS, POSITIONS = 4, 64, 4, 128
VOCABULARY = 1500
STEPS, WARMUP, BATCH = 10_000, 300, 64
LEARNING_RATE = 2e-3
INITIAL = 0.07  # BERT's 0.02 at width 768, scaled by the root of the width
# Special tokens in the order of their ids.
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LONGEST = 48  # tokens of a training sentence; longer ones are truncated


def pretrain(
    kind: str, seed: int | str, out: Path, lines: Sequence[str] = (), steps: int = STEPS
) -> None:
    """Train a tokenizer and an encoder, and write them in Hugging Face format.

    Args:
        kind: "bert" (lower-casing WordPiece, BertForMaskedLM), "roberta" (cased byte-level BPE,
            RobertaForMaskedLM), or "chinese" (as "bert", on the corpus in Chinese characters, one
            token each).
        seed: of weights, order, masks and dropout.
        out: folder to write.
        lines: sentences; by default those of the world.
        steps: of the optimiser.
    """
    torch.set_num_threads(1)  # the result depends on it
    lines = lines or sentences()
    if kind == "chinese":
        kind, lines = "bert", [in_chinese(line) for line in lines]
    tokenizer = train_wordpiece(lines) if kind == "bert" else train_byte_bpe(lines)
    rows = tokenizer(list(lines), truncation=True, max_length=LONGEST)["input_ids"]
    torch.manual_seed(int(seed))
    model = _new_model(kind, len(tokenizer))
    words = model.get_input_embeddings().weight
    words.data.copy_(_cooccurrence_vectors(rows, *words.shape) * INITIAL)
    _train(model, rows, tokenizer, steps)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def sentences() -> list[str]:
    return (world_data_folder() / "world.txt").read_text(encoding="utf-8").splitlines()


def train_wordpiece(lines: Sequence[str], size: int = VOCABULARY) -> Any:
    from transformers import BertTokenizer

    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # The trainer numbers single characters in the order of a hash table, and ties between merges
    # follow the numbers. Listing the characters as special tokens fixes the numbers.
    characters = sorted(set("".join("".join(lines).lower().split())))
    single = [*characters, *(f"##{character}" for character in characters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*BERT, *single], show_progress=False
    )
    trained.train_from_iterator(lines, trainer)
    return BertTokenizer(vocab=trained.get_vocab(), model_max_length=POSITIONS)


def train_byte_bpe(lines: Sequence[str], size: int = VOCABULARY) -> Any:
    from transformers import RobertaTokenizer

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*ROBERTA],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    trained.train_from_iterator(lines, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = list(map(tuple, model["merges"]))
    return RobertaTokenizer(vocab=model["vocab"], merges=merges, model_max_length=POSITIONS)


def _new_model(kind: str, vocabulary: int) -> Any:
    from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

    common = {
        "vocab_size": vocabulary,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * WIDTH,
        "initializer_range": INITIAL,
    }
    if kind == "bert":
        return BertForMaskedLM(BertConfig(**common, max_position_embeddings=POSITIONS))
    # Positions start after the padding id, as in RoBERTa. Its ids of special tokens are defaults.
    positions = {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
    return RobertaForMaskedLM(RobertaConfig(**common, **positions, layer_norm_eps=1e-5))


def _cooccurrence_vectors(rows: list[list[int]], vocabulary: int, width: int) -> torch.Tensor:
    """Return initial token embeddings (vocabulary, width), each row of unit variance.

    They are the leading eigenvectors of the positive pointwise mutual information within a sentence
    and between neighbouring ones (after Levy and Goldberg, 2014). From random embeddings, a minute
    on one core is too short to learn the topics of the world.
    """
    ends = np.cumsum([0, *(len(row) - 2 for row in rows)])
    indices = np.concatenate([row[1:-1] for row in rows])
    present = csr_array((np.ones(ends[-1]), indices, ends), shape=(len(rows), vocabulary))
    here, after = present[:-1], present[1:]
    together = (present.T @ present + here.T @ after + after.T @ here).toarray()
    values, vectors = np.linalg.eigh(_information(together, together.sum(1) + 1.0))
    leading = np.argsort(-values)[:width]
    embeddings = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0))
    embeddings /= embeddings.std(1, keepdims=True) + 1e-6
    return torch.tensor(embeddings, dtype=torch.float32)


def _information(together: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The positive pointwise mutual information of words that are counted `together`."""
    return np.log(np.maximum(together * total.sum() / np.outer(total, total), 1.0))


def _train(model: Any, rows: list[list[int]], tokenizer: Any, steps: int) -> None:
    from transformers import DataCollatorForLanguageModeling, get_linear_schedule_with_warmup

    optimiser = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    schedule = get_linear_schedule_with_warmup(optimiser, WARMUP, steps)
    masked = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    order: Any = torch.utils.data.RandomSampler(rows, num_samples=steps * BATCH)
    batches: Any = torch.utils.data.DataLoader(rows, BATCH, sampler=order, collate_fn=masked)
    model.train()
    progress = Progress(steps, "masked language")
    for batch in batches:
        # float32: bfloat16 saves a seventh of the time on processors that support it, and takes
        # six times as long on others.
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        schedule.step()
        progress.advance()


# Window and weights of GloVe (Pennington et al. 2014, section 4.2): ten words to each side, weight
# 1/k at distance k. Matrix factorisation replaces training: it takes a second and needs no seed.
VECTOR_WIDTH = 24  # relative to the toy transformers' 64 about as 300 to 768
WINDOW = 10
MIN_COUNT = 5  # of a word with a vector, as in GloVe's program


def make_vectors(out: Path) -> None:
    """Write word vectors of the world's corpus in GloVe's text format.

    They are the leading singular vectors of the positive pointwise mutual information within a
    window of a sentence, each scaled by the root of its singular value (Levy, Goldberg and Dagan
    2015). Words are lower-cased, as in the glove.6B tables.
    """
    texts = [re.findall(r"\w+|[^\w\s]", line.lower()) for line in sentences()]
    running = [*chain.from_iterable(texts)]
    counts = Counter(running)
    frequent = [word for word, count in counts.items() if count >= MIN_COUNT]
    words = sorted(frequent, key=lambda word: (-counts[word], word))
    place = np.repeat(np.arange(len(texts)), [*map(len, texts)])
    vectors = _factorised(pd.Categorical(running, words).codes, place, len(words))
    out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(vectors, words).to_csv(out, sep=" ", header=False, float_format="%.5f")


def _factorised(text: np.ndarray, place: np.ndarray, words: int) -> np.ndarray:
    """Vectors of the words, from their numbers in running text (-1: none) and its sentences."""
    together = np.zeros((words, words))
    for distance in range(1, WINDOW + 1):
        left, right = text[:-distance], text[distance:]
        valid = (place[:-distance] == place[distance:]) & (left >= 0) & (right >= 0)
        np.add.at(together, (left[valid], right[valid]), 1 / distance)
    together += together.T
    total = np.maximum(together.sum(axis=1), 1e-9)  # 0 for a word without neighbours
    left, values, _ = np.linalg.svd(_information(together, total))
    return left[:, :VECTOR_WIDTH] * np.sqrt(values[:VECTOR_WIDTH])
