"""A real SLURM cluster of one machine in one folder: Debian's munge and slurm-wlm alone."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
NODE = "bench1"
CPUS = 2
# SLURM counts GPUs by their device files, which it never opens; so any two stand in for them.
DEVICES = ("/dev/null", "/dev/zero")
SHARDS = 2  # of each

# A job of the partition `urgent` takes the node from those of `batch`, which SLURM queues again.
CONFIGURATION = """
ClusterName=sentbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=30
MinJobAge=3600
ReturnToService=2
SlurmctldTimeout=20
SlurmdTimeout=10
GresTypes=gpu,shard
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} \
RealMemory={memory} Gres=gpu:{gpus},shard:{shards} State=UNKNOWN
PartitionName=batch Nodes={node} Default=YES MaxTime=60 PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes={node} MaxTime=60 PriorityTier=2 PreemptMode=OFF
"""


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(met: Callable[[], bool], failure: str, seconds: float = 60) -> None:
    """Wait for a condition, or raise TimeoutError."""
    for _ in range(int(seconds / 0.2)):
        if met():
            return
        time.sleep(0.2)
    raise TimeoutError(f"after {seconds:.0f} s: {failure}")


class Cluster:
    """Started by `start`, ended by `stop`; everything it writes lies in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        self.environment = {**os.environ, **paths}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start munge, the controller and the node, and wait until the node takes jobs."""
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        conf = CONFIGURATION.format(
            host=socket.gethostname(),
            user=getpass.getuser(),
            folder=self.folder,
            controller=free_port(),
            daemon=free_port(),
            node=NODE,
            cpus=CPUS,
            gpus=len(DEVICES),
            shards=SHARDS * len(DEVICES),
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 - 1024,
        )
        (self.folder / "slurm.conf").write_text(conf)
        gpus = "".join(f"Name=gpu File={device}\n" for device in DEVICES)
        shards = f"Name=shard Count={SHARDS * len(DEVICES)}\n"
        (self.folder / "gres.conf").write_text(gpus + shards)
        # The plugin's job steps drop SLURM_CONF, which matters only outside the usual place.
        program, srun = self.folder / "bin" / "srun", shutil.which("srun")
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {srun} "$@"\n')
        program.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        paths = [
            f"--{name}={self.folder}/munge.{name.split('-')[0]}"
            for name in ("socket", "pid-file", "log-file", "seed-file")
        ]
        self._spawn("munged", "--foreground", "--force", f"--key-file={key}", *paths)
        until((self.folder / "munge.socket").exists, "munged has no socket")
        self._spawn("slurmctld", "-D")
        self.start_node()

    def start_node(self) -> None:
        self._spawn("slurmd", "-D", "-N", NODE)
        up = ("idle", "mixed", "allocated")
        until(lambda: self.node_state() in up, "the node does not come up")

    def kill_node(self) -> None:
        """As a crash of the machine: slurmd and the processes of all jobs end at once."""
        daemon = self._processes.pop("slurmd")
        daemon.kill()
        daemon.wait()
        self._kill_jobs()

    def stop(self) -> None:
        """End all jobs, then the cluster, whatever state it is in."""
        self.slurm("scancel", "--user", getpass.getuser())
        with suppress(TimeoutError):
            until(lambda: not self.jobs(), "jobs do not end")
        for process in reversed(self._processes.values()):
            process.terminate()
            process.wait(30)
        self._kill_jobs()

    def _kill_jobs(self) -> None:
        """Kill the processes of jobs on this cluster, and those of SLURM that watch over them."""
        mine = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                environment = (process / "environ").read_bytes().split(b"\0")
                watcher = (process / "comm").read_text().startswith("slurmstepd")
                job = any(word.startswith(b"SLURM_JOB_ID=") for word in environment)
                if mine in environment and (watcher or job):
                    os.kill(int(process.name), signal.SIGKILL)

    def _spawn(self, name: str, *words: str) -> None:
        program = shutil.which(name)
        assert program is not None
        with (self.folder / f"{name}.out").open("ab") as log:
            options = {"env": self.environment, "stdout": log, "stderr": log}
            command = [program, *words]
            self._processes[name] = subprocess.Popen(command, start_new_session=True, **options)

    def slurm(self, *command: str) -> str:
        """The output of a command of SLURM; nothing where it fails."""
        options = {"env": self.environment, "capture_output": True, "text": True, "timeout": 60}
        return subprocess.run(command, **options).stdout

    def node_state(self) -> str:
        words = f"sinfo --noheader --nodes {NODE} --partition batch --format %T".split()
        return self.slurm(*words).strip()

    def jobs(self, states: str = "PENDING,RUNNING,COMPLETING") -> list[tuple[str, str, str]]:
        """Identity, state and comment (the rule) of the jobs in these states."""
        words = f"squeue --noheader --states {states} --format %i|%T|%k".split()
        return [tuple(line.split("|")) for line in self.slurm(*words).splitlines()]
