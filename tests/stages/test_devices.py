"""Which GPUs there are: nvidia-smi and the driver's files are pretended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.stages import devices
from bench.utils.errors import UserError

EIGHT = [f"GPU-{number:08x}" for number in range(8)]
# `nvidia-smi -L` of two GPUs, the second of which has two parts.
WITH_PARTS = """\
GPU 0: NVIDIA H200 (UUID: GPU-a)
GPU 1: NVIDIA H200 (UUID: GPU-b)
  MIG 3g.71gb     Device  0: (UUID: MIG-b1)
  MIG 3g.71gb     Device  1: (UUID: MIG-b2)
"""


@pytest.fixture(autouse=True)
def no_devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without GPUs, nvidia-smi or a driver."""
    for name in ("SENTBENCH_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(devices, "PROC", tmp_path / "proc")
    monkeypatch.setattr(devices, "DEV", tmp_path / "dev")


def nvidia_smi(folder: Path, output: str, status: int = 0) -> None:
    program = folder / "nvidia-smi"
    listing = folder / "listing"
    listing.write_text(output)
    program.write_text(f'#!/bin/sh\n[ "$1" = -L ] || exit 9\n/bin/cat {listing}\nexit {status}\n')
    program.chmod(0o755)


def driver(folder: Path, uuids: list[str], files: list[str]) -> None:
    """The driver's files: a folder for each GPU of the machine, in the order of their slots, and
    the device files here."""
    for minor, uuid in enumerate(uuids):
        slot = folder / "proc" / f"0000:{minor:02x}:00.0"
        slot.mkdir(parents=True)
        facts = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (slot / "information").write_text(facts)
    (folder / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *files):
        (folder / "dev" / name).touch()


def uuids() -> list[str]:
    return [device.uuid for device in devices.listed()]


@pytest.mark.parametrize(
    ("output", "status", "expected"),
    [
        ("GPU 0: H200 (UUID: GPU-a)\nGPU 1: H200 (UUID: GPU-b)\n", 0, ["GPU-a", "GPU-b"]),
        (WITH_PARTS, 0, ["GPU-a", "MIG-b1", "MIG-b2"]),
        ("No devices were found\n", 6, []),
        ("No devices found.\n", 6, []),
        # One is lost.
        ("GPU 0: H200 (UUID: GPU-a)\nUnable to determine the device handle\n", 15, ["GPU-a"]),
    ],
)
def test_nvidia_smi_is_asked(output: str, status: int, expected: list[str], tmp_path: Path) -> None:
    nvidia_smi(tmp_path, output, status)
    assert uuids() == expected


def test_a_broken_driver_is_no_reason_to_train_on_the_cpu(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, "Failed to initialize NVML: Driver/library version mismatch\n", 18)
    with pytest.raises(UserError, match=r"version mismatch.*CUDA_VISIBLE_DEVICES= "):
        devices.visible()


@pytest.mark.parametrize(
    ("machine", "files", "expected"),
    [
        ([], [], []),
        (["GPU-a", "GPU-b"], ["nvidia0", "nvidia1"], ["GPU-a", "GPU-b"]),
        (["GPU-a", "GPU-b"], ["nvidia1"], ["GPU-b"]),  # a container with one of two
        (["GPU-a", "GPU-b"], [], []),  # a container without GPUs on a machine with two
    ],
)
def test_without_nvidia_smi_the_driver_is_asked(
    machine: list[str], files: list[str], expected: list[str], tmp_path: Path
) -> None:
    driver(tmp_path, machine, files)
    assert uuids() == expected


@pytest.mark.parametrize("machine", [[], ["GPU-????????-????"]])
def test_a_gpu_without_a_name_is_no_reason_to_train_on_the_cpu(
    machine: list[str], tmp_path: Path
) -> None:
    driver(tmp_path, machine, ["nvidia0"])
    with pytest.raises(UserError, match=r"has nvidia0, but .* in SENTBENCH_DEVICES, or set CUDA_V"):
        devices.visible()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, EIGHT),
        ("", []),
        ("  ", []),
        ("-1", []),
        ("3,1", [EIGHT[3], EIGHT[1]]),
        ("2,2", [EIGHT[2]]),
        ("1,9,2", [EIGHT[1]]),  # ends at the first that names none, as for CUDA
        (f"{EIGHT[5]}, 0", [EIGHT[5], EIGHT[0]]),
        ("GPU-00000004", [EIGHT[4]]),
        ("GPU-", []),  # the beginning of several
        ("MIG-1/2/3", ["MIG-1/2/3"]),  # as older drivers name parts
    ],
)
def test_only_what_cuda_visible_devices_allows(
    chosen: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTBENCH_DEVICES", ",".join(EIGHT))
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert devices.visible() == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("1", ["MIG-b1", "MIG-b2"]),
        ("GPU-b", ["MIG-b1", "MIG-b2"]),
        ("MIG-b2,0", ["MIG-b2", "GPU-a"]),
    ],
)
def test_a_gpu_with_parts_stands_for_them(
    chosen: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvidia_smi(tmp_path, WITH_PARTS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert devices.visible() == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("exit 0", None),
        ("echo CUDA error: out of memory >&2; exit 1", "CUDA error: out of memory"),
        ("[ $CUDA_VISIBLE_DEVICES = GPU-a ] || exit 3", None),
        ("kill -9 $$", "exit status -9"),
        ("exec /bin/sleep 9", "no answer in 0.5 s"),
    ],
)
def test_why_a_device_does_not_start(
    program: str, expected: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(devices, "START_SECONDS", 0.5)
    assert devices.start_fault("GPU-a") == expected


# A driver of which the functions in FAIL do not succeed.
DRIVER = """
#include <stdlib.h>
#include <string.h>
static int status(const char *name, int code) {
    return strcmp(getenv("FAIL"), name) ? 0 : code;
}
int cuInit(unsigned flags) { return flags ? 1 : status("cuInit", 999); }
int cuDeviceGet(int *device, int number) {
    *device = 7;
    return number ? 1 : status("cuDeviceGet", 101);
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    return device == 7 ? status("cuDevicePrimaryCtxRetain", 2) : 1;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 2 ? "out of memory" : code == 999 ? "unknown error" : 0;
    return 0;
}
"""


@pytest.fixture(scope="module")
def made_up_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "cuda.c").write_text(DRIVER)
    command = ["cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "cuda.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("none", None),
        ("cuInit", "cuInit: unknown error"),
        ("cuDeviceGet", "cuDeviceGet: 101"),
        ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain: out of memory"),
    ],
)
def test_the_driver_says_why_a_device_does_not_start(
    function: str, expected: str | None, made_up_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(made_up_driver))
    monkeypatch.setenv("FAIL", function)
    assert devices.start_fault("GPU-a") == expected


def test_torch_that_cannot_use_the_device_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One built without CUDA; one that finds no driver, or an older one, says something else."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError) as caught:
        devices.start_cuda()
    torch_says = "Torch not compiled with CUDA enabled" if torch.version.cuda is None else "No"
    assert str(caught.value).startswith(
        f"there is a GPU, but torch {torch.__version__} cannot use it ({torch_says}"
    )
    assert str(caught.value).endswith(
        "build for its driver, or set CUDA_VISIBLE_DEVICES= to use the CPU"
    )
