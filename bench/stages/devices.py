"""The GPUs of a machine: which there are, which this process may use, and whether one starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.utils.errors import UserError

# Files of NVIDIA's driver: one folder per GPU of the machine, and one file per GPU that this
# process, or its container, may open.
PROC, DEV = Path("/proc/driver/nvidia/gpus"), Path("/dev")
# A line of `nvidia-smi -L`: a GPU, or below it a part of it (MIG).
_LINE = re.compile(r"^(?:GPU (\d+):|\s+MIG ).*\(UUID: (\S+)\)", re.MULTILINE)
_NONE = re.compile("No devices (were )?found")
ON_THE_CPU = "set CUDA_VISIBLE_DEVICES= to use the CPU"
START_SECONDS = 60  # starting CUDA takes about one; a GPU that hangs takes for ever
# CUDA's driver alone, because importing torch would take longer than all the rest of a start.
START = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    if status := getattr(cuda, name)(*arguments):
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(status, ctypes.byref(text))
        sys.exit(f"{name}: {(text.value or str(status).encode()).decode()}")
device, context = ctypes.c_int(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
"""


@dataclass(frozen=True)
class Device:
    """A GPU, or a part of one (MIG): what a process can have in CUDA_VISIBLE_DEVICES."""

    uuid: str
    index: str  # of the whole GPU, in nvidia-smi's order
    whole: str  # its UUID


def listed() -> list[Device]:
    """Return the machine's devices in nvidia-smi's order; a GPU with parts is listed as these.

    Without nvidia-smi, as in many containers, they are those of the driver's files.

    Raises:
        UserError: nvidia-smi fails, or the driver's files do not name the GPUs.
    """
    given = os.environ.get("SENTBENCH_DEVICES")
    if given is not None:
        return _whole([uuid.strip() for uuid in given.split(",") if uuid.strip()])
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return _of_driver()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"nvidia-smi cannot be run ({error}); repair it, or {ON_THE_CPU}") from None
    devices: list[Device] = []
    for index, uuid in _LINE.findall(answer.stdout):
        if index:
            devices.append(Device(uuid, index, uuid))
            continue
        gpu = devices[-1]
        if gpu.uuid == gpu.whole:
            devices.pop()
        devices.append(Device(uuid, gpu.index, gpu.whole))
    output = (answer.stdout + answer.stderr).strip()
    # With a GPU that is lost, nvidia-smi fails; it may list the others.
    if answer.returncode and not devices and not _NONE.search(output):
        raise UserError(
            f"nvidia-smi fails ({output.splitlines()[-1:]}); repair it, name the GPUs that work in "
            f"SENTBENCH_DEVICES, or {ON_THE_CPU}"
        )
    return devices


def _whole(uuids: list[str]) -> list[Device]:
    return [Device(uuid, str(index), uuid) for index, uuid in enumerate(uuids)]


def _of_driver() -> list[Device]:
    """Return the GPUs that have a device file here, by the addresses of their slots.

    A container without GPUs sees those of its machine in /proc, but no device file.
    """
    files = {path.name for path in DEV.glob("nvidia[0-9]*")}
    uuids = []
    for file in sorted(PROC.glob("*/information")):
        facts = dict(re.findall(r"^(.+?):\s*(.+?)\s*$", file.read_text(), re.MULTILINE))
        uuid = facts.get("GPU UUID", "?")  # full of question marks until the GPU is first used
        if f"nvidia{facts.get('Device Minor')}" in files and "?" not in uuid:
            uuids.append(uuid)
    if len(uuids) < len(files):
        raise UserError(
            f"{DEV} has {', '.join(sorted(files))}, but neither nvidia-smi nor {PROC} says what "
            f"they are; name the GPUs' UUIDs in SENTBENCH_DEVICES, or {ON_THE_CPU}"
        )
    return _whole(uuids)


def visible() -> list[str]:
    """Return the UUIDs of the devices that this process may use, in the order of
    CUDA_VISIBLE_DEVICES if set.

    The variable holds indices, UUIDs or prefixes of UUIDs. As for CUDA, it ends at the first entry
    that matches no device; unlike CUDA, an entry of a GPU with parts allows all of them. Indices
    are nvidia-smi's; on a machine with different GPUs, CUDA uses the same order with
    CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and not chosen.strip():
        return []
    devices = listed()
    if chosen is None:
        return [device.uuid for device in devices]
    allowed: list[str] = []
    for word in (word.strip() for word in chosen.split(",")):
        matches = [device for device in devices if word and _is_called(device, word)]
        if len({device.whole for device in matches}) == 1:
            allowed += [device.uuid for device in matches if device.uuid not in allowed]
        elif word.startswith("MIG-") and not matches:  # older drivers have other names for parts
            allowed.append(word)
        else:
            break
    return allowed


def _is_called(device: Device, word: str) -> bool:
    return word == device.index or any(
        uuid.startswith(word) for uuid in (device.uuid, device.whole)
    )


def start_fault(uuid: str) -> str | None:
    """Return why CUDA does not start on a device, or None if it does.

    Another process tries, because a process in which CUDA did not start cannot use another device.
    """
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    command = [sys.executable, "-c", START]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {START_SECONDS} s"
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return said[-1] if done.returncode else None


def start_cuda() -> None:
    """Start CUDA in this process; raise `UserError` if torch has none, or none for this driver."""
    import torch

    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        raise UserError(
            f"there is a GPU, but torch {torch.__version__} cannot use it "
            f"({str(error).splitlines()[0]}); install a build for its driver, or {ON_THE_CPU}"
        ) from None
