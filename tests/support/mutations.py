"""The oracles are tested themselves: each mistake in the source must make the comparison fail.

Here: mistakes in the formula, in GS-InfoNCE, in SSCL, in IS-CSE by neighbours, in compositions.
"""

from tests.oracles.edits import Mutation, edits

MUTATIONS: dict[str, Mutation] = {
    # The formula
    **edits("methods.base.contrastive:cosine", {
        "sign_of_the_cosine": ("simcse", "rows @ columns.T", "-rows @ columns.T"),
        "product_in_place_of_cosine": (
            "simcse", "(F.normalize(rows, dim=-1), F.normalize(columns, dim=-1))",
            "(rows, columns)"),
    }),
    **edits("methods.base.contrastive:info_nce", {
        "cosine_clamped_as_if_distance": (
            "cosine(anchors, positives)", "cosine(anchors, positives).clamp(min=0)"),
        "temperature_multiplied": (
            "cosine(anchors, positives) / temperature", "cosine(anchors, positives) * temperature"),
        "temperature_a_little_off": (
            "simcse-warm", "cosine(anchors, positives)", "cosine(anchors, positives) / 1.00001"),
        "both_directions": (
            "logits = cosine(anchors, positives) / temperature",
            "logits = cosine(anchors, positives) / temperature\n"
            "return (pair_loss(logits) + pair_loss(logits.T)) / 2"),
        "positive_left_out_of_the_denominator": (
            "logits = cosine(anchors, positives) / temperature",
            "logits = cosine(anchors, positives) / temperature\n"
            "others = logits.masked_fill(torch.eye(len(logits)).bool(), -torch.inf)\n"
            "return (others.logsumexp(1) - logits.diagonal()).mean()"),
        "computed_in_float32": (
            "cosine(anchors, positives)", "cosine(anchors.float(), positives.float()).double()"),
    }, case="simcse"),
    **edits("methods.base.contrastive:Contrastive.contrast", {
        "temperature_inverted": (
            "simcse", "self.hyper.temperature", "1 / self.hyper.temperature"),
    }),
    **edits("methods.base.contrastive:Contrastive.pairs", {
        "positive_of_the_next_sentence": (
            "simcse", "(first, second)", "(first, second.roll(1, 0))"),
        "views_swapped": ("simcse", "(first, second)", "(second, first)"),
        "positive_detached": ("simcse", "(first, second)", "(first, second.detach())"),
    }),
    **edits("methods.base.contrastive:pair_loss", {
        "sum_in_place_of_mean": (
            "simcse", "F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))",
            "F.cross_entropy(logits, torch.arange(len(logits)), reduction='sum')"),
    }),
    # GS-InfoNCE
    **edits("methods.base.contrastive:Negatives.logits", {
        "lambda_added_to_the_exponent": ("gs-lambda", "math.log(self.weight)", "self.weight"),
        "lambda_divides": (
            "gs-small-lambda", "logits + math.log(self.weight)", "logits - math.log(self.weight)"),
    }),
    **edits("methods.gs_infonce:GSInfoNCE.negatives", {
        "one_noise_vector_more": (
            "round(self.hyper.multiple * step.batch_size)",
            "round(self.hyper.multiple * step.batch_size) + 1"),
        "noise_counted_from_the_short_batch": ("step.batch_size", "len(anchors)"),
        "noise_added_to_the_anchor": (
            "(noise * self.hyper.std).to(anchors)",
            "anchors.unsqueeze(1) + (noise * self.hyper.std).to(anchors)"),
        "noise_of_another_shape": ("noise * self.hyper.std", "noise.sign() * self.hyper.std"),
    }, case="gs"),
    **edits("methods.base.contract:Step.generator", {
        "noise_of_the_next_step": ("gs", "self.index", "self.index + 1"),
        "noise_of_another_seed": ("gs", "self.seed", "1"),
    }),
    # SSCL
    **edits("methods.sscl:SSCL.negatives", {
        "layer_vectors_detached": ("sscl-dropout-all-both", "self.hyper.detach", "True"),
        "layer_vectors_not_detached": (
            "sscl-dropout-all-both-detach", "self.hyper.detach", "False"),
        "layers_off_by_one_upwards": (
            "sscl-dropout-all-both", "views.at_layer(layer)",
            "views.at_layer(layer + 1) if layer < self.shape.depth - 1 else views.vectors"),
        "layer_vectors_of_the_other_view": (
            "sscl-dropout-own-one", "views.at_layer(layer)", "views.at_layer(layer)[::-1]"),
        "layer_vectors_of_the_next_sentence": (
            "sscl-dropout-own-both", "torch.stack(vectors, dim=1)",
            "torch.stack(vectors, dim=1).roll(1, 0)"),
    }),
    **edits("methods.sscl:SSCL.layers", {
        "single_layer_counted_from_the_embeddings": (
            "sscl-layer-3", "[self.hyper.layer]", "[self.hyper.layer - 1]"),
        "layers_off_by_one_downwards": (
            "sscl-dropout-all-both", "self.shape.depth - 1 - i", "self.shape.depth - 2 - i"),
    }),
    **edits("methods.sscl:SSCL.plain_share", {
        "average_of_other_shares": ("sscl-dropout-all-both-average", "0.5", "0.4"),
    }),
    **edits("methods.base.contrastive:Contrastive.loss", {
        "sum_in_place_of_average": (
            "sscl-dropout-all-both-average",
            "(1 - share) * loss + share * info_nce(anchors, positives, temperature)",
            "loss + info_nce(anchors, positives, temperature)"),
    }),
    **edits("methods.sscl:SSCL.pairs", {
        "self_positive_of_the_second_view": (
            "sscl-self-all-both", "(views.vectors[0], views.vectors[0])",
            "(views.vectors[1], views.vectors[1])"),
    }),
    # IS-CSE: memory and retrieval
    **edits("methods.is_cse:ISCSE._smooth", {
        "one_neighbour_more": (
            "self.hyper.neighbours + skipped", "self.hyper.neighbours + skipped + 1"),
        "batch_enters_after_retrieval": ("rows.T", "rows[:-len(unit)].T"),
        "batch_enters_before_retrieval": (
            "is-cse-paper", "similarities = unit.detach() @ rows.T",
            "rows = torch.cat([rows, unit.detach()])[-self.hyper.buffer:]\n"
            "similarities = unit.detach() @ rows.T"),
        "best_match_kept": (
            "similarities.topk(self.hyper.neighbours + skipped, dim=1).indices[:, skipped:]",
            "similarities.topk(self.hyper.neighbours + skipped, dim=1).indices[:, :-1]"),
        "best_match_discarded": (
            "is-cse-paper",
            "similarities.topk(self.hyper.neighbours + skipped, dim=1).indices[:, skipped:]",
            "similarities.topk(self.hyper.neighbours + 1, dim=1).indices[:, 1:]"),
        "farthest_in_place_of_nearest": (
            "is-cse-paper", "similarities.topk", "(-similarities).topk"),
        "nearest_of_the_first_sentence_for_all": (
            "similarities.topk", "similarities[:1].expand_as(similarities).topk"),
    }, case="is-cse-official"),
    **edits("methods.is_cse:ISCSE._remembered", {
        "starts_before_the_memory_is_full": (
            "is-cse-official", "self.hyper.buffer if self.hyper.current_first else needed",
            "self.hyper.buffer * 0"),
        "waits_until_the_memory_is_full": (
            "is-cse-paper", "self.hyper.buffer if self.hyper.current_first else needed",
            "self.hyper.buffer"),
    }),
    **edits("methods.base.contrastive:Queued.append", {
        "memory_of_another_length": ("is-cse-official", "-len(self.rows)", "1 - len(self.rows)"),
        "oldest_rows_kept": (
            "is-cse-paper", "[self.rows.to(vectors), vectors]",
            "[self.rows.to(vectors), vectors[:max(len(self.rows) - self.filled, 0)]]"),
    }),
    **edits("methods.is_cse:ISCSE._remember", {
        "memory_with_gradient": ("is-cse-official", "unit.detach()", "unit"),
    }),
    **edits("methods.is_cse:ISCSE.terms", {
        "memory_of_the_anchors": (
            "is-cse-paper", "if not self.hyper.current_first:\n    self._remember(unit)",
            "if True:\n    self._remember(F.normalize(anchors))"),
    }),
    # Eq. 4 and 8
    **edits("methods.is_cse:ISCSE._smooth", {
        "attention_temperature_multiplied": (
            "is-cse-sharp", "torch.einsum('nd,nkd->nk', unit, keys) / self.hyper.beta",
            "torch.einsum('nd,nkd->nk', unit, keys) * self.hyper.beta"),
        "attention_without_itself": (
            "is-cse-paper", "torch.cat([unit.unsqueeze(1), rows[ranked]], dim=1)", "rows[ranked]"),
        "attention_with_its_query_detached": (
            "is-cse-paper", "torch.einsum('nd,nkd->nk', unit, keys)",
            "torch.einsum('nd,nkd->nk', unit.detach(), keys)"),
        # Its key alone would be no mistake: a unit vector's product with itself has a gradient
        # along it, which falls away.
        "attention_with_its_value_detached": (
            "is-cse-paper", "torch.einsum('nk,nkd->nd', attention, keys)",
            "torch.einsum('nk,nkd->nd', attention, keys.detach())"),
    }),
    **edits("methods.is_cse:ISCSE.alpha", {
        "start_and_end_swapped": (
            "if start is None:\n    return end",
            "if start is None:\n    return end\nstart, end = (end, start)"),
        "maximum_in_place_of_minimum": ("min", "max"),
        "end_reached_at_the_end": (
            "math.pi * step.index / step.total", "math.pi * step.index / step.total / 2"),
        "linear_in_place_of_cosine": (
            "math.cos(math.pi * step.index / step.total)", "1 - 2 * step.index / step.total"),
        "steps_counted_from_one": ("step.index", "step.index + 1"),
        "constant_alpha_a_little_off": ("is-cse-official", "return end", "return end + 0.0001"),
    }, case="is-cse-rising"),
    **edits("methods.base.contrastive:Contrastive.loss", {
        "smoothing_in_place_of_instance": (
            "is-cse-official", "loss + coefficient * term", "loss + coefficient * (term - loss)"),
    }),
    **edits("methods.is_cse:ISCSE.terms", {
        "smoothed_as_anchor": (
            "is-cse-official", "info_nce(anchors, h, temperature)",
            "info_nce(h, anchors, temperature)"),
        "smoothed_against_plain_negatives": (
            "is-cse-official", "info_nce(anchors, h, temperature)",
            "F.cross_entropy(torch.where(torch.eye(len(h)).bool(), F.normalize(anchors) @ "
            "F.normalize(h).T, F.normalize(anchors) @ F.normalize(anchors).T) / temperature, "
            "torch.arange(len(h)))"),
    }),
    # Compositions
    **edits("methods.base.contrastive:Contrastive.slots", {
        "ingredient_forgotten": ("gs+is-cse", "[self, *self.parts]", "[self]"),
    }),
    **edits("methods.is_cse:ISCSE.terms", {
        "noise_in_the_smoothing_term_too": (
            "gs+is-cse", "info_nce(anchors, h, temperature)",
            "info_nce(anchors, h, temperature, "
            "[info_nce.__globals__['Negatives'](torch.randn(8, 3).to(h))])"),
        "temperature_of_the_ingredient": (
            "sscl+is-cse", "info_nce(anchors, h, temperature)", "info_nce(anchors, h, 0.05)"),
    }),
    **edits("methods.base.contrastive:Contrastive.loss", {
        "average_covers_the_smoothing_term": (
            "is-cse+sscl", "coefficient * term", "coefficient * term / 2"),
        "average_leaves_the_noise_in_the_plain_loss": (
            "gs+sscl",
            "if share and (negatives or weights is not None):\n"
            "    loss = (1 - share) * loss + share * info_nce(anchors, positives, temperature)",
            "if share and (negatives or weights is not None):\n"
            "    loss = (1 - share) * loss + share * info_nce(anchors, positives, temperature, "
            "negatives[:1])"),
    }),
    **edits("methods.sscl:SSCL.negatives", {
        "layers_counted_twice": ("gs+sscl", "return groups", "return 2 * groups"),
    }),
}  # fmt: skip
