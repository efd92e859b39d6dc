"""The data folder: where it is, fetching, verifying, unpacking.

Text comes from a local folder (`BENCH_DATA`), else from the hub's data set `princeton-nlp/datasets-for-simcse` and,
what that lacks, from SentEval's repository; it is fetched once into a cache (`SENTBENCH_CACHE`, by default
`.cache/data`). What is fetched is compared with a pin: a commit of its repository and the sums of its files, from
`pins.json` where they could be looked up, else from `pins.lock.json`, where the first download writes them.
HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE mean what they mean everywhere; GITHUB_RAW_ENDPOINT replaces
https://raw.githubusercontent.com.
"""

from bench.download.archive import unpack
from bench.download.backbones import BACKBONE_FILES, fetch_backbone
from bench.download.cache import cache_folder
from bench.download.fetch import check_corpus, fetch_corpus, fetch_senteval, fetch_words
from bench.download.hub import DATASET, fetch_file
from bench.download.local import CORPORA, corpus_name, corpus_path, local_folder
from bench.download.pins import LOCK, PINS, enforce, pinned, record
from bench.download.xprobe import probing_file
from bench.utils.lines import LONGEST_LINE, read_lines

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
