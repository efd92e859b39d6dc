"""What the hub of the tests of downloads holds; archives."""

import io
import json
import tarfile

CORPUS = "wiki1m_for_simcse.txt"
TEXT = b"".join(b"Sentence number %d of the corpus.\n" % row for row in range(30))
BERT = "google-bert/bert-base-uncased"
NO_PINS = json.dumps({"repositories": {}, "corpora": {}})


def tar(files: dict[str, bytes]) -> bytes:
    """An archive of files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()
