"""Tiny random transformers of other architectures than BERT and RoBERTa."""

import shutil

from tests.support.tiny_backbones import save_random

BERT = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
BERT |= {"intermediate_size": 48, "initializer_range": 0.15}
LONG = {"max_position_embeddings": 64}
QWEN3 = {"num_key_value_heads": 2, "head_dim": 8}
TOKENS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
T5 = {"d_model": 32, "num_layers": 4, "num_heads": 4, "d_ff": 48, "d_kv": 8}
T5 |= {"decoder_start_token_id": 0, "initializer_factor": 0.5, **TOKENS}
DISTILBERT = {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48, "initializer_range": 0.15}
GPT2 = {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 64, "initializer_range": 0.15}
BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
BART |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, **LONG}
# ModernBERT has none by default; what a recipe does not set shows.
DROPOUT = dict.fromkeys(("attention_dropout", "embedding_dropout", "mlp_dropout"), 0.1)
# Name -> class of the configuration, its values.
KINDS = {
    "distilbert": ("DistilBertConfig", {**DISTILBERT, **LONG}),
    # Its positions start behind that of padding, so 66 are 64 tokens.
    "mpnet": ("MPNetConfig", {**BERT, "max_position_embeddings": 66}),
    "modernbert": ("ModernBertConfig", {**BERT, **LONG, **TOKENS, **DROPOUT}),
    "albert": ("AlbertConfig", {**BERT, **LONG, "embedding_size": 16}),
    "t5": ("T5Config", T5),  # with its decoder
    "gpt2": ("GPT2Config", {**GPT2, **TOKENS}),
    "qwen3": ("Qwen3Config", {**BERT, **LONG, **TOKENS, **QWEN3}),
    "bart": ("BartConfig", {**BART, **TOKENS, "decoder_start_token_id": 2}),
}


def write_architecture(kind, tiny_bert, folder):
    """Write a model with the tokenizer of the tiny BERT."""
    import transformers

    name, values = KINDS[kind]
    config = getattr(transformers, name)(**values)
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(tiny_bert))
    config.vocab_size = vocabulary + 8  # tokenizers add tokens of their kind
    save_random(config, folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_bert / file, folder)
    return folder
