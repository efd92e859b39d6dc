"""The data folder: where it is, fetching, verifying, unpacking.

Text comes from a local folder (`BENCH_DATA`), else from the hub's data set `princeton-nlp/datasets-for-simcse` and,
what that lacks, from SentEval's repository; it is fetched once into a cache (`SENTBENCH_CACHE`, by default
`.cache/data`). What is fetched is compared with a pin: a commit of its repository and the sums of its files, from
`pins.json` where they could be looked up, else from `pins.lock.json`, where the first download writes them.
HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what they mean everywhere; GITHUB_RAW_ENDPOINT replaces
https://raw.githubusercontent.com.
"""

from bench.data.archive import unpack
from bench.data.cache import cache_folder
from bench.data.fetch import check_corpus, fetch_corpus, fetch_senteval, fetch_words
from bench.data.hub import DATASET, fetch_file
from bench.data.local import CORPORA, corpus_name, corpus_path, local_folder
from bench.data.models import BACKBONE_FILES, fetch_backbone
from bench.data.pins import LOCK, PINS, enforce, pinned, record
from bench.data.probing import probing_file
from bench.data.reading import LONGEST_LINE, read_lines

__all__ = [
    "BACKBONE_FILES",
    "CORPORA",
    "DATASET",
    "LOCK",
    "LONGEST_LINE",
    "PINS",
    "cache_folder",
    "check_corpus",
    "corpus_name",
    "corpus_path",
    "enforce",
    "fetch_backbone",
    "fetch_corpus",
    "fetch_file",
    "fetch_senteval",
    "fetch_words",
    "local_folder",
    "pinned",
    "probing_file",
    "read_lines",
    "record",
    "unpack",
]
