"""What the hub of the download tests holds."""

import io
import tarfile

CORPUS = "wiki1m_for_simcse.txt"


TEXT = b"".join(b"Sentence number %d of the corpus.\n" % row for row in range(30))


BERT = "google-bert/bert-base-uncased"


DATA = {"STS/STS12-en-test/a.txt": b"one\n", "SICK/b.txt": b"two\n"}


def tar(files, **fields):
    """An archive of files, or of what fields say."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()
