"""Contrastive prompting of a decoder (arXiv 2505.12831), as a function that `evaluate` scores:

    sentbench evaluate examples.contrast:encode --tasks sts

In layer LAYER, counted from 0, the output projection of the attention receives at the last token
STRENGTH times the difference of a sentence in TEXT and in AUXILIARY. The layers behind run on
(zifengcheng/CP@bf5ee56:activation_intervention/__init__.py:231-233). The released code also ends
each sentence with a full stop, and makes its double quotes single
(evaluate_intervention.py:234-236).
"""

from functools import cache

import torch
from transformers import AutoModel, AutoTokenizer

# The settings that the authors released for this model.
MODEL, LAYER, STRENGTH, OUTPUT = "meta-llama/Llama-2-7b-hf", 4, 0.5, 27
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TEXT = 'This sentence : "{}" means in one word:"'
AUXILIARY = 'The irrelevant information of this sentence : "{}" means in one word:"'


@cache
def loaded():
    tokenizer = AutoTokenizer.from_pretrained(MODEL, padding_side="right")
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, AutoModel.from_pretrained(MODEL, dtype=torch.float32).to(DEVICE).eval()


@torch.inference_mode()
def encode(sentences, at_once=32):
    """The vectors of sentences, (n, d): the last token behind OUTPUT layers."""
    tokenizer, model = loaded()
    vectors = []
    for start in range(0, len(sentences), at_once):
        part = sentences[start : start + at_once]
        texts = [template.format(text) for template in (TEXT, AUXILIARY) for text in part]
        batch = tokenizer(texts, padding=True, return_tensors="pt").to(DEVICE)
        last = torch.arange(len(texts)), batch["attention_mask"].sum(1) - 1

        def change(_, received, last=last):
            normal, auxiliary = received[0][last].chunk(2)
            received[0][last] = STRENGTH * (normal - auxiliary).repeat(2, 1)

        with model.layers[LAYER].self_attn.o_proj.register_forward_pre_hook(change):
            states = model(**batch, output_hidden_states=True).hidden_states[OUTPUT]
        vectors.append(states[last][: len(part)])
    return torch.cat(vectors)


encode.identity = "1"  # an interrupted evaluation resumes; change it with the vectors
