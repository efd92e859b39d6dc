"""Tiny random decoders with a byte-level tokenizer."""

from functools import cache

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tests.support.tiny_backbones import make_sentences, save_random

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320, "initializer_range": 0.15}
SIZES |= {"bos_token_id": 0, "eos_token_id": 1}
HEADS = {"num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 160}
# States of width 32 between layers, vectors of width 16, as OPT-350M has them.
NARROW = {"num_attention_heads": 4, "ffn_dim": 48, "word_embed_proj_dim": 16}
NARROW |= {"do_layer_norm_before": False, "max_position_embeddings": 160, "init_std": 0.15}
# Kind -> its configuration, and how its tokenizer surrounds a text.
KINDS = {
    "qwen3": ("Qwen3Config", HEADS | {"num_key_value_heads": 2, "head_dim": 8}, "$A </s>"),
    "llama": ("LlamaConfig", HEADS | {"num_key_value_heads": 2}, "<s> $A"),
    "gpt2": ("GPT2Config", {"n_head": 4, "n_positions": 160}, "$A"),
    "mamba": ("MambaConfig", {"state_size": 8}, "$A"),
    "opt": ("OPTConfig", NARROW, "$A"),
}
PROMPT = 'This sentence : "<sentence>" means in one word:"'  # PromptEOL


def writer(root):
    """A function that gives the folder of a kind. Only Qwen3's tokenizer pads."""
    special = [("<s>", 0), ("</s>", 1)]
    words, letters = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    options = {"vocab_size": 320, "special_tokens": ["<s>", "</s>"], "initial_alphabet": letters}
    texts = [*make_sentences(200, seed=1), *20 * [PROMPT]]
    words.train_from_iterator(texts, trainers.BpeTrainer(**options))

    @cache
    def folder(kind):
        name, values, single = KINDS[kind]
        save_random(getattr(transformers, name)(**SIZES, **values), root / kind, seed=3)
        words.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        tokens |= {"pad_token": "</s>"} if kind == "qwen3" else {}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **tokens)
        tokenizer.save_pretrained(root / kind)
        return root / kind

    return folder
