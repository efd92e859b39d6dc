"""The oracles are tested themselves: each mistake in the source must make the comparison fail.

Here: mistakes in the formula, in GS-InfoNCE, in SSCL, in IS-CSE by neighbours, in compositions.
"""

from tests.oracles.edits import Mutation, edits

MUTATIONS: dict[str, Mutation] = {
    # The formula
    **edits("methods.base.contrastive:cosine", {
        "sign_of_the_cosine": ("simcse", "rows @ columns.T", "-rows @ columns.T"),
    }),
    **edits("methods.base.contrastive:info_nce", {
        "temperature_multiplied": (
            "cosine(anchors, positives) / temperature", "cosine(anchors, positives) * temperature"),
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
    **edits("methods.base.contrastive:Contrastive.pairs", {
        "positive_of_the_next_sentence": (
            "simcse", "(first, second)", "(first, second.roll(1, 0))"),
    }),
    **edits("methods.base.contrastive:pair_loss", {
        "sum_in_place_of_mean": (
            "simcse", "F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))",
            "F.cross_entropy(logits, torch.arange(len(logits)), reduction='sum')"),
    }),
    # GS-InfoNCE
    **edits("methods.base.contrastive:Negatives.logits", {
        "lambda_added_to_the_exponent": ("gs-lambda", "math.log(self.weight)", "self.weight"),
    }),
    **edits("methods.gs_infonce:GSInfoNCE.negatives", {
        "noise_counted_from_the_short_batch": ("step.batch_size", "len(anchors)"),
    }, case="gs"),
    **edits("methods.base.contract:Step.generator", {
        "noise_of_the_next_step": ("gs", "self.index", "self.index + 1"),
    }),
    # SSCL
    **edits("methods.sscl:SSCL.negatives", {
        "layer_vectors_detached": ("sscl-dropout-all-both", "self.hyper.detach", "True"),
        "layer_vectors_of_the_other_view": (
            "sscl-dropout-own-one", "views.at_layer(layer)", "views.at_layer(layer)[::-1]"),
    }),
    **edits("methods.sscl:SSCL.layers", {
        "layers_off_by_one_downwards": (
            "sscl-dropout-all-both", "self.shape.depth - 1 - i", "self.shape.depth - 2 - i"),
    }),
    **edits("methods.sscl:SSCL.plain_share", {
        "average_of_other_shares": ("sscl-dropout-all-both-average", "0.5", "0.4"),
    }),
    **edits("methods.sscl:SSCL.pairs", {
        "self_positive_of_the_second_view": (
            "sscl-self-all-both", "(views.vectors[0], views.vectors[0])",
            "(views.vectors[1], views.vectors[1])"),
    }),
    # IS-CSE: memory and retrieval
    **edits("methods.is_cse:ISCSE._smooth", {
        "batch_enters_after_retrieval": ("rows.T", "rows[:-len(unit)].T"),
        "best_match_discarded": (
            "is-cse-paper",
            "similarities.topk(self.hyper.neighbours + skipped, dim=1).indices[:, skipped:]",
            "similarities.topk(self.hyper.neighbours + 1, dim=1).indices[:, 1:]"),
    }, case="is-cse-official"),
    **edits("methods.is_cse:ISCSE._remembered", {
        "waits_until_the_memory_is_full": (
            "is-cse-paper", "self.hyper.buffer if self.hyper.current_first else needed",
            "self.hyper.buffer"),
    }),
    **edits("methods.base.contrastive:Queued.append", {
        "memory_with_gradient": ("is-cse-official", "vectors.detach()", "vectors"),
    }),
    # Eq. 4 and 8
    **edits("methods.is_cse:ISCSE._smooth", {
        "attention_without_itself": (
            "is-cse-paper", "torch.cat([unit.unsqueeze(1), rows[ranked]], dim=1)", "rows[ranked]"),
        # Its key alone would be no mistake: a unit vector's product with itself has a gradient
        # along it, which falls away.
        "attention_with_its_value_detached": (
            "is-cse-paper", "torch.einsum('nk,nkd->nd', attention, keys)",
            "torch.einsum('nk,nkd->nd', attention, keys.detach())"),
    }),
    **edits("methods.is_cse:ISCSE.alpha", {
        "steps_counted_from_one": ("step.index", "step.index + 1"),
    }, case="is-cse-rising"),
    **edits("methods.is_cse:ISCSE.terms", {
        "smoothed_against_plain_negatives": (
            "is-cse-official", "info_nce(anchors, h, temperature)",
            "F.cross_entropy(torch.where(torch.eye(len(h)).bool(), F.normalize(anchors) @ "
            "F.normalize(h).T, F.normalize(anchors) @ F.normalize(anchors).T) / temperature, "
            "torch.arange(len(h)))"),
    }),
    # Compositions
    **edits("methods.base.contrastive:Contrastive.loss", {
        "average_covers_the_smoothing_term": (
            "is-cse+sscl", "coefficient * term", "coefficient * term / 2"),
    }),
}  # fmt: skip
