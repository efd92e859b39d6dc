"""An archive of a suite renders to the same bytes, and a hostile one writes nothing."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from bench.datasets.tasks import STS_TASKS
from bench.export.archive import pack, unpack_suite
from bench.report.render import render
from bench.utils.errors import UserError
from bench.utils.files import read_json, sha256_file, write_json, write_text
from tests.support.synthetic_suite import seeds, write_suite


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite with a baseline, a missing run, and files that an archive leaves out."""
    rows = [dict.fromkeys(STS_TASKS, value) for value in (76.1, 76.2, 76.35)]
    entries = [*seeds("simcse", rows), *seeds("is-cse", rows[::-1]), {"method": "sscl", "seed": 0}]
    folder = write_suite(tmp_path_factory.mktemp("a") / "results" / "s", entries)
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    for name in ("logs/train/run000.log", "runs/run000/log.jsonl", "inputs/data.json"):
        write_text(folder / name, "{}\n")
    for name in ("world/a.txt", "tokens/b", "runs/run000/checkpoints/1.safetensors"):
        write_text(folder / name, "large")
    write_text(folder / "runs" / "run000" / "encoder" / "model.safetensors", "weights")
    return folder


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}


def listed(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def test_an_archive_renders_to_the_same_bytes(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, again = tmp_path / "s.tar.gz", tmp_path / "again" / "s.tar.gz"
    assert main(["archive", "--suite", str(suite), "--out", str(archive)]) == 0
    pack(suite, again)
    assert archive.read_bytes() == again.read_bytes()
    names = set(listed(archive))
    assert {"plan.json", "logs/train/run000.log", "runs/run000/log.jsonl"} <= names
    assert not {name for name in names if name.startswith(("world", "tokens")) or "check" in name}
    assert "runs/run000/encoder/model.safetensors" not in names

    render(suite, suite)
    capsys.readouterr()
    assert main(["render", str(archive), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/out/report/index.html\n"
    for part in ("tables", "figures", "report"):
        before = content(suite / part)
        assert content(tmp_path / "out" / part) == before
        assert len(before) > 5
    assert {"compare.csv", "coverage.md", "audit.md"} <= content(suite / "tables").keys()


def test_what_is_rendered_early_says_so(suite: Path, tmp_path: Path) -> None:
    render(suite, tmp_path)
    remark = "Partial: 6 of 7 runs have been made."
    for name in ("tables/sts.md", "tables/sscl_table-2.md", "tables/compare.md"):
        assert remark in (tmp_path / name).read_text(), name
    page = (tmp_path / "report" / "index.html").read_text()
    assert f'<p class="remark">{remark}</p>' in page
    assert 'href="../tables/cells.csv"' in page
    assert (tmp_path / "report" / "../tables/cells.csv").is_file()


def test_before_the_first_score_only_the_comparison_is_left_out(tmp_path: Path) -> None:
    planned = [{"method": name, "seed": 0} for name in ("simcse", "sscl")]
    folder = write_suite(tmp_path / "s", planned)
    write_json(folder / "plan.json", read_json(folder / "plan.json") | {"baseline": "simcse"})
    out = tmp_path / "out"
    assert main(["render", str(folder), "--out", str(out)]) == 0
    names = content(out).keys()
    assert {"tables/sts.md", "tables/audit.md", "report/index.html"} <= names
    assert not [name for name in names if "compare" in name]
    assert {path.name for path in out.iterdir()} == {"tables", "figures", "report"}


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_renders_nothing(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise UserError("the figures fail")

    monkeypatch.setattr("bench.report.render.render_figures", fail)
    out = tmp_path / "out"
    if exists:
        write_text(out / "tables" / "sts.md", "of an earlier call")
    with pytest.raises(UserError, match="the figures fail"):
        render(suite, out)
    assert sorted(content(tmp_path)) == ["out/tables/sts.md"] * exists
    assert out.exists() == exists


def test_results_of_an_earlier_plan_are_left_out(suite: Path, tmp_path: Path) -> None:
    """The same suite has the same bytes, whatever its folder held before."""
    pack(suite, tmp_path / "before.tar.gz", weights=True)
    for name in ("scores/old.json", "trained/old.json", "runs/old/encoder/model.safetensors"):
        write_text(suite / name, "{")
    pack(suite, tmp_path / "after.tar.gz", weights=True)
    assert (tmp_path / "after.tar.gz").read_bytes() == (tmp_path / "before.tar.gz").read_bytes()


def test_weights_only_on_request(suite: Path, tmp_path: Path) -> None:
    pack(suite, tmp_path / "w.tar.gz", weights=True)
    names = listed(tmp_path / "w.tar.gz")
    assert [name for name in names if "encoder" in name] == [
        "runs/run000/encoder/model.safetensors"
    ]


def _member(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[tarfile.TarFile], None]:
    def add(tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
        member.size = 2 if kind == tarfile.REGTYPE else 0
        tar.addfile(member, io.BytesIO(b"{}"))

    return add


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        (_member("../plan.json"), "leads out of the folder"),
        (_member("/tmp/plan.json"), "leads out of the folder"),
        (_member("plan.json", tarfile.SYMTYPE), "is a link or a device"),
        (_member("plan.json", tarfile.CHRTYPE), "is a link or a device"),
        (_member("other.json"), "has no plan.json, so it is no archive of a suite"),
        (_member("plan.json"), r"x\.tar\.gz: plan\.json is not a plan \(.*pack the suite"),
    ],
)
def test_a_foreign_archive_writes_nothing(
    member: Callable[[tarfile.TarFile], None], sentence: str, tmp_path: Path
) -> None:
    archive, out = tmp_path / "x.tar.gz", tmp_path / "in" / "out"
    with gzip.open(archive, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        member(tar)
    with pytest.raises(UserError, match=sentence):
        unpack_suite(archive, out)
    assert list(tmp_path.rglob("*.json")) == []
    assert not out.exists()


def test_what_cannot_be_packed_or_unpacked(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"its ending must be \.tar\.gz"):
        pack(suite, tmp_path / "s.zip")
    with pytest.raises(UserError, match=r"plan\.json does not exist"):
        pack(tmp_path, tmp_path / "s.tar.gz")
    pack(suite, tmp_path / "s.tar.gz")
    with pytest.raises(UserError, match="name a new folder"):
        unpack_suite(tmp_path / "s.tar.gz", suite)


@pytest.mark.parametrize("damage", ["first 300", "all but the sum", "a wrong sum", "text", "zip"])
def test_a_damaged_archive_is_one_line_and_writes_nothing(
    damage: str, suite: Path, tmp_path: Path
) -> None:
    pack(suite, archive := tmp_path / "s.tar.gz")
    content = archive.read_bytes()
    changed = {
        "first 300": content[:300],
        "all but the sum": content[:-8],
        "a wrong sum": content[:-8] + b"12345678",
        "text": b"no archive\n" * 99,
        "zip": b"PK\x03\x04" + bytes(999),
    }
    archive.write_bytes(changed[damage])
    with pytest.raises(UserError, match=r"^[^\n]*s\.tar\.gz cannot be unpacked [^\n]*$"):
        unpack_suite(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_linked_result_is_packed(suite: Path, tmp_path: Path) -> None:
    shutil.copytree(suite, linked := tmp_path / "s")
    scores = linked / "scores" / "run000.json"
    scores.rename(tmp_path / "elsewhere.json")
    scores.symlink_to(tmp_path / "elsewhere.json")
    pack(linked, archive := tmp_path / "s.tar.gz")
    pack(suite, plain := tmp_path / "plain.tar.gz")
    assert archive.read_bytes() == plain.read_bytes()


def test_a_damaged_result_is_neither_packed_nor_unpacked(suite: Path, tmp_path: Path) -> None:
    shutil.copytree(suite, copied := tmp_path / "s")
    name = "scores/run000.json"
    write_text(copied / name, (copied / name).read_text().replace('"value": 7', '"value": 97', 1))
    archive = tmp_path / "s.tar.gz"
    with pytest.raises(UserError, match=f"{name} is not a scores file"):
        pack(copied, archive)
    assert not archive.exists()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(copied, "")
    with pytest.raises(UserError, match=rf"^[^\n]*s\.tar\.gz: {name} [^\n]*pack the suite again$"):
        unpack_suite(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_source_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "s.tar.gz"
    assert main(["render", str(source), "--out", str(tmp_path / "out")]) == 2
    said = f"error: {source} does not exist; name a suite's folder or an archive of one\n"
    assert capsys.readouterr().err == said
    write_text(source, "{}")
    assert main(["render", str(source), "--out", str(tmp_path / "out")]) == 2
    said = "it is no archive, or damaged); name a suite's folder, or pack the suite again\n"
    assert capsys.readouterr().err.endswith(said)
    assert not (tmp_path / "out").exists()
