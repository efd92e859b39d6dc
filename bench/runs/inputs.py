"""Whether the inputs of runs are at hand: evaluation data, corpora, backbones."""

from __future__ import annotations

from collections.abc import Sequence

from bench.datasets.corpora import is_fetched
from bench.download import local_folder, present
from bench.registry.backbones import UnknownBackbone, backbone
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.text import listed


def check_inputs(runs: Sequence[Run], data: str) -> list[str]:
    """What has to be downloaded for some runs, as texts; empty if everything is here.

    Args:
        runs: the runs.
        data: their evaluation data.

    Raises:
        UserError: something has to be, but cannot: the hub does not answer, or data and corpora are
            those of the folder BENCH_DATA, which lacks them.
    """
    folder, files, problems = local_folder(), _missing_files(runs, data), []
    if files and folder:
        them = "them" if len(files) > 1 else "it"
        problems.append(
            f"{_are(files, f'not in BENCH_DATA, {folder}')}; add {them} there "
            f"(docs/downloads.md), or unset BENCH_DATA to download {them}"
        )
        files = []
    models = _missing_models(runs)
    if (files or models) and not present.hub_answers():
        remedies = ["set BENCH_DATA to a folder with the data and corpora"] if files else []
        if models:
            remedies.append("set HF_HOME to a cache of the hub that has the models")
        problems.append(
            f"{_are(files + models, 'not on this machine')}, and the Hugging Face hub does not "
            f"answer; connect to the network, or {listed(remedies)}"
        )
    if problems:
        raise UserError("; and ".join(problems))
    return files + models


def _are(things: Sequence[str], what: str) -> str:
    return f"{listed(things)} {'are' if len(things) > 1 else 'is'} {what}"


def _missing_files(runs: Sequence[Run], data: str) -> list[str]:
    senteval = data == "senteval" and not present.has_senteval()
    corpora = dict.fromkeys(name for run in runs for name in run.corpora)
    missing = [name for name in corpora if is_fetched(name) and not present.has_corpus(name)]
    return ["SentEval's data"] * senteval + [f"the corpus {name}" for name in missing]


def _missing_models(runs: Sequence[Run]) -> list[str]:
    backbones = dict.fromkeys(run.backbone for run in runs if not run.backbone.is_here())
    # A model that identifies itself by its name is one of the hub.
    names = dict.fromkeys(
        name for run in runs for name, identity in run.models.items() if identity == name
    )
    missing = [f"the backbone {backbone.name}" for backbone in backbones]
    return missing + [f"the model {name}" for name in names if not _has_model(name)]


def _has_model(name: str) -> bool:
    try:
        return backbone(name).is_here()
    except UnknownBackbone:
        return present.has_model(name)
