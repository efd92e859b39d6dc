"""The oracles are tested themselves: each mistake in the source must make the comparison fail.

Here: mistakes in the formula, in GS-InfoNCE, in SSCL, in IS-CSE by neighbours, in compositions.
"""

from tests.oracles.edits import Mutation, edits, hyper

contract = formula = edits("methods.base")
gs, sscl, is_cse = edits("methods.gs_infonce"), edits("methods.sscl"), edits("methods.is_cse")

MUTATIONS: dict[str, tuple[str, Mutation]] = {
    # The formula
    "sign_of_the_cosine": (
        "simcse", formula("return rows @ columns.T", "return -rows @ columns.T")),
    "product_in_place_of_cosine": (
        "simcse",
        formula("= F.normalize(rows, dim=-1), F.normalize(columns, dim=-1)", "= rows, columns")),
    "cosine_clamped_as_if_distance": (
        "simcse",
        formula("cosine(anchors, positives) /", "cosine(anchors, positives).clamp(min=0) /")),
    "temperature_multiplied": (
        "simcse", formula("cosine(anchors, positives) /", "cosine(anchors, positives) *")),
    "temperature_a_little_off": (
        "simcse-warm",
        formula("positives) / temperature", "positives) / 1.00001 / temperature")),
    "positive_of_the_next_sentence": (
        "simcse", formula("return first, second\n", "return first, second.roll(1, 0)\n")),
    "views_swapped": ("simcse", formula("return first, second\n", "return second, first\n")),
    "both_directions": (
        "simcse",
        formula("return pair_loss(beside(",
                "return (pair_loss(logits) + pair_loss(logits.T)) / 2\n"
                "    return pair_loss(beside(")),
    "positive_detached": (
        "simcse", formula("return first, second\n", "return first, second.detach()\n")),
    "sum_in_place_of_mean": (
        "simcse",
        formula("return pair_loss(beside(", "return len(logits) * pair_loss(beside(")),
    "positive_left_out_of_the_denominator": (
        "simcse",
        formula("return pair_loss(beside(",
                "others = logits.masked_fill(torch.eye(len(logits)).bool(), -torch.inf)\n"
                "    return (others.logsumexp(1) - logits.diagonal()).mean()\n"
                "    return pair_loss(beside(")),
    "computed_in_float32": (
        "simcse",
        formula("cosine(anchors, positives) /",
                "cosine(anchors.float(), positives.float()).double() /")),
    # GS-InfoNCE
    "lambda_not_applied": ("gs-lambda", hyper(weight=1.0)),
    "lambda_added_to_the_exponent": (
        "gs-lambda", formula("+ math.log(self.weight)", "+ self.weight")),
    "lambda_divides": (
        "gs-small-lambda", formula("+ math.log(self.weight)", "- math.log(self.weight)")),
    "one_noise_vector_more": ("gs", hyper(multiple=1.8)),
    "noise_counted_from_the_short_batch": ("gs", gs("* step.batch_size)", "* len(anchors))")),
    "noise_of_the_next_step": (
        "gs", contract("self.seed, name, self.index,", "self.seed, name, self.index + 1,")),
    "noise_equal_at_each_step": (
        "gs", contract("self.seed, name, self.index,", "self.seed, name, 0,")),
    "noise_added_to_the_anchor": (
        "gs",
        gs("Negatives((noise * self.hyper.std).to(anchors)",
           "Negatives(anchors.unsqueeze(1) + (noise * self.hyper.std).to(anchors)")),
    "noise_of_another_shape": ("gs", gs("(noise * self", "(noise.sign() * self")),
    "noise_opposed": ("gs", gs("(noise * self", "(-noise * self")),
    # SSCL
    "layers_off_by_one_upwards": (
        "sscl-dropout-all-both",
        sscl("views.at_layer(layer)",
             "views.at_layer(layer + 1) if layer < self.shape.depth - 1 else views.vectors")),
    "layers_off_by_one_downwards": (
        "sscl-dropout-all-both", sscl("self.shape.depth - 1 - i", "self.shape.depth - 2 - i")),
    "one_layer_more": ("sscl-stack-1", hyper(stack=2)),
    "single_layer_counted_from_the_embeddings": ("sscl-layer-3", hyper(layer=2)),
    "layer_vectors_of_the_other_view": (
        "sscl-dropout-own-one", sscl("views.at_layer(layer)", "views.at_layer(layer)[::-1]")),
    "layer_vectors_of_the_next_sentence": (
        "sscl-dropout-own-both",
        sscl("torch.stack(vectors, dim=1)", "torch.stack(vectors, dim=1).roll(1, 0)")),
    "all_in_place_of_own": ("sscl-dropout-own-both", hyper(negatives="all")),
    "one_side_in_place_of_both": ("sscl-dropout-all-both", hyper(sides="one")),
    "layer_vectors_detached": ("sscl-dropout-all-both", hyper(detach=True)),
    "layer_vectors_not_detached": ("sscl-dropout-all-both-detach", hyper(detach=False)),
    "average_of_other_shares": (
        "sscl-dropout-all-both-average", sscl("return 0.5 if", "return 0.4 if")),
    "sum_in_place_of_average": (
        "sscl-dropout-all-both-average",
        formula("(1 - share) * loss + share * info_nce", "loss + info_nce")),
    "averaged_where_it_should_not": ("sscl-dropout-all-both", hyper(average=True)),
    "dropout_positive_in_place_of_self": ("sscl-self-all-both", hyper(positive="dropout")),
    "self_positive_of_the_second_view": (
        "sscl-self-all-both",
        sscl("views.vectors[0], views.vectors[0]", "views.vectors[1], views.vectors[1]")),
    # IS-CSE: memory and retrieval
    "batch_enters_after_retrieval": (
        "is-cse-official",
        is_cse("unit.detach() @ rows.T", "unit.detach() @ rows[: -len(unit)].T")),
    "batch_enters_before_retrieval": (
        "is-cse-paper",
        is_cse("similarities = unit.detach()",
               "rows = torch.cat([rows, unit.detach()])[-self.hyper.buffer :]\n"
               "        similarities = unit.detach()")),
    "best_match_kept": ("is-cse-official", is_cse(".indices[:, skipped:]", ".indices[:, :-1]")),
    "best_match_discarded": (
        "is-cse-paper",
        is_cse("neighbours + skipped, dim=1).indices[:, skipped:]",
               "neighbours + 1, dim=1).indices[:, 1:]")),
    "farthest_in_place_of_nearest": (
        "is-cse-paper", is_cse("similarities.topk(", "(-similarities).topk(")),
    "nearest_of_the_first_sentence_for_all": (
        "is-cse-official",
        is_cse("similarities.topk(", "similarities[:1].expand_as(similarities).topk(")),
    "one_neighbour_more": ("is-cse-official", hyper(neighbours=4)),
    "starts_before_the_memory_is_full": (
        "is-cse-official", is_cse("if self.hyper.current_first else needed", "* 0")),
    "waits_until_the_memory_is_full": (
        "is-cse-paper", is_cse("if self.hyper.current_first else needed", "")),
    "memory_of_another_length": (
        "is-cse-official", formula("[-len(self.rows) :]", "[1 - len(self.rows) :]")),
    "memory_of_other_lengths": (
        "is-cse-paper", is_cse("self.append(unit.detach())", "self.append(unit.detach().exp())")),
    "memory_of_the_anchors": (
        "is-cse-paper",
        is_cse("if not self.hyper.current_first:\n            self._remember(unit)",
               "if True:\n            self._remember(F.normalize(anchors))")),
    "oldest_rows_kept": (
        "is-cse-paper",
        formula("vectors])[-len(self.rows) :]",
                "vectors[: max(len(self.rows) - self.filled, 0)]])[-len(self.rows) :]")),
    "memory_with_gradient": (
        "is-cse-official", is_cse("unit.detach())  # without", "unit)  # without")),
    # Eq. 4 and 8
    "attention_without_temperature": ("is-cse-official", hyper(beta=1.0)),
    "attention_temperature_multiplied": (
        "is-cse-sharp", is_cse("/ self.hyper.beta", "* self.hyper.beta")),
    "attention_without_itself": (
        "is-cse-paper",
        is_cse("torch.cat([unit.unsqueeze(1), rows[ranked]], dim=1)", "rows[ranked]")),
    "attention_with_its_query_detached": (
        "is-cse-paper", is_cse('"nd,nkd->nk", unit, keys', '"nd,nkd->nk", unit.detach(), keys')),
    # Its key alone would be no mistake: a unit vector's product with itself has a gradient along
    # it, which falls away.
    "attention_with_its_value_detached": (
        "is-cse-paper",
        is_cse("attention, keys)",
               "attention, torch.cat([unit.detach().unsqueeze(1), rows[ranked]], dim=1))")),
    "mean_in_place_of_attention": ("is-cse-paper", hyper(beta=1e9)),
    "start_and_end_swapped": (
        "is-cse-rising",
        is_cse("return min(math.cos", "start, end = end, start\n        return min(math.cos")),
    "maximum_in_place_of_minimum": (
        "is-cse-rising", is_cse("return min(math.cos", "return max(math.cos")),
    "end_reached_at_the_end": (
        "is-cse-rising", is_cse("step.index / step.total)", "step.index / step.total / 2)")),
    "linear_in_place_of_cosine": (
        "is-cse-rising",
        is_cse("math.cos(math.pi * step.index / step.total)", "(1 - 2 * step.index / step.total)")),
    "steps_counted_from_one": (
        "is-cse-rising", is_cse("math.pi * step.index", "math.pi * (step.index + 1)")),
    "constant_alpha_a_little_off": (
        "is-cse-official", is_cse("            return end\n", "            return end + 1e-4\n")),
    "smoothing_in_place_of_instance": (
        "is-cse-official",
        formula("= loss + coefficient * term", "= loss + coefficient * (term - loss)")),
    "smoothed_as_anchor": (
        "is-cse-official", is_cse("info_nce(anchors, h, ", "info_nce(h, anchors, ")),
    "smoothed_against_plain_negatives": (
        "is-cse-official",
        is_cse("info_nce(anchors, h, temperature)",
               "F.cross_entropy(torch.where(torch.eye(len(h)).bool(), F.normalize(anchors) "
               "@ F.normalize(h).T, F.normalize(anchors) @ F.normalize(anchors).T) / temperature, "
               "torch.arange(len(h)))")),
    # Compositions
    "ingredient_forgotten": ("gs+is-cse", formula("return [self, *self.parts]", "return [self]")),
    "noise_in_the_smoothing_term_too": (
        "gs+is-cse",
        is_cse("h, temperature)",
               "h, temperature, [info_nce.__globals__['Negatives'](torch.randn(8, 3).to(h))])")),
    "temperature_of_the_ingredient": ("sscl+is-cse", is_cse("h, temperature)", "h, 0.05)")),
    "average_covers_the_smoothing_term": (
        "is-cse+sscl", formula("loss + coefficient * term", "loss + coefficient * term / 2")),
    "average_leaves_the_noise_in_the_plain_loss": (
        "gs+sscl", formula("share * info_nce(anchors, positives, temperature)",
                           "share * info_nce(anchors, positives, temperature, negatives[:1])")),
    "layers_counted_twice": ("gs+sscl", sscl("return groups", "return 2 * groups")),
}  # fmt: skip
