"""Random backbones and sentences of random words, small enough for every test."""

import random
from string import ascii_lowercase

WORDS = """
a the one two small big red blue old new man woman dog cat bird child car boat house tree river road
plays eats sees finds takes holds moves runs jumps sleeps in on under near with and of to is was not
very again today slowly
""".split()  # noqa: SIM905


LAYERS, WIDTH = 4, 32


# Vectors of these backbones by two ways through float32: 7e-7 apart at most on any processor.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def make_sentences(count, seed, lengths=(2, 9)):
    """Sentences of random words; every tenth is repeated later on, as in real corpora."""
    draw = random.Random(seed)
    rows = []
    while len(rows) < count:
        again = rows and draw.random() < 0.1
        fresh = () if again else draw.choices(WORDS, k=draw.randint(*lengths))
        rows.append(draw.choice(rows) if again else " ".join(fresh))
    return rows


def bert_tokenizer(size=0):
    """A lower-casing WordPiece tokenizer of at least so many pieces."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    names = ("pad", "unk", "cls", "sep", "mask")
    special = {f"{name}_token": f"[{name.upper()}]" for name in names}
    pieces = [*special.values(), *WORDS, *ascii_lowercase, *(f"##{a}" for a in ascii_lowercase)]
    pieces += [f"[unused{number}]" for number in range(size - len({*pieces}))]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = BertWordPieceTokenizer(vocabulary)._tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)


def _roberta_tokenizer():
    from tokenizers import ByteLevelBPETokenizer, processors
    from transformers import PreTrainedTokenizerFast

    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    special |= {"pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    bpe = ByteLevelBPETokenizer()
    first = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    options = {"vocab_size": 330, "min_frequency": 0, "special_tokens": first}
    bpe.train_from_iterator(make_sentences(50, seed=0), show_progress=False, **options)
    tokenizer = bpe._tokenizer
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **special)


def save_random(config, folder, seed=7, **options):
    """Save a model of a configuration, whose weights follow from the seed alone."""
    import torch
    from transformers import AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        AutoModel.from_config(config, **options).save_pretrained(folder)


def write_backbone(kind, folder):
    from transformers import AutoConfig

    tokenizer, own = bert_tokenizer(), {"max_position_embeddings": 64}
    if kind == "roberta":
        tokenizer = _roberta_tokenizer()
        own = {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
        own["layer_norm_eps"] = 1e-5
    # Wider initial weights than BERT's 0.02, so that four random layers change vectors visibly.
    shape = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4}
    shape |= {"intermediate_size": 48, "initializer_range": 0.15, "vocab_size": len(tokenizer)}
    config = AutoConfig.for_model(kind, **shape, **own)
    save_random(config, folder, add_pooling_layer=False)
    tokenizer.save_pretrained(folder)
    return folder
