"""Whether the inputs of runs are at hand: evaluation data, corpora, backbones."""

from collections.abc import Sequence

from bench.datasets.corpora import is_fetched
from bench.download import local_folder, present
from bench.registry.backbones import UnknownBackbone, backbone
from bench.runs.run import Run
from bench.utils.errors import UserError
from bench.utils.text import listed


def check_inputs(runs: Sequence[Run], data: str) -> list[str]:
    """What has to be downloaded for some runs on their evaluation data, as texts.

    Raises:
        UserError: something has to be, but cannot: the hub does not answer, or data and corpora are
            those of the folder BENCH_DATA, which lacks them.
    """
    corpora = dict.fromkeys(name for run in runs for name in run.corpora)
    missing = [name for name in corpora if is_fetched(name) and not present.has_corpus(name)]
    files = [f"the corpus {name}" for name in missing]
    if data == "senteval" and not present.has_senteval():
        files.insert(0, "SentEval's data")
    models, folder, problems = _missing_models(runs), local_folder(), []
    if files and folder:
        problems.append(
            f"BENCH_DATA, {folder}, lacks {listed(files)}; add what is missing "
            "(docs/downloads.md), or unset BENCH_DATA to download it"
        )
        files = []
    if (files or models) and not present.hub_answers():
        remedies = ["set BENCH_DATA to a folder with the data and corpora"] if files else []
        if models:
            remedies.append("set HF_HOME to a cache of the hub that has the models")
        problems.append(
            f"this machine lacks {listed(files + models)}, and the Hugging Face hub does not "
            f"answer; connect to the network, or {listed(remedies)}"
        )
    if problems:
        raise UserError("; and ".join(problems))
    return files + models


def _missing_models(runs: Sequence[Run]) -> list[str]:
    backbones = dict.fromkeys(backbone(run.reference) for run in runs)
    missing = [f"the backbone {used.name}" for used in backbones if not used.is_here()]
    # A model that identifies itself by its name is one of the hub.
    models = [(name, identity) for run in runs for name, identity in run.models.items()]
    for name in dict.fromkeys(name for name, identity in models if identity == name):
        try:
            is_here = backbone(name).is_here()
        except UnknownBackbone:
            is_here = present.has_model(name)
        if not is_here:
            missing.append(f"the model {name}")
    return missing
