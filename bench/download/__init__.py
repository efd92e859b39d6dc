"""The data folder and downloads.

Text comes from a local folder (BENCH_DATA), else from the hub; SentEval's probing files come from
its repository on GitHub. Every file is compared with its pin: a commit and digests in `pins.json`
or, where nobody published them, in `pins.lock.json` of the cache, which the first download writes.
"""

# ruff: noqa: F401
from bench.download.fetch import fetch_corpus, fetch_senteval, fetch_words
from bench.download.hub import DATASET, fetch_backbone, known_corpus, pinned, probing_file, record
from bench.download.local import CORPORA, cache_folder, corpus_name, corpus_path, local_folder
from bench.utils.files import read_lines
