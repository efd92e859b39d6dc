"""The cost of a process that takes one core for training and encoding on two cores.

Each side is a process of its own, because OpenMP reads its policy once, and is timed alone and
beside a busy process, in turn.
"""

import os
import subprocess
import sys
from statistics import median

import pytest

SECONDS, ROUNDS = 2, 3
# Of the speed of one thread alone, which is what is left of two cores. A training's threads wait
# for each other, and one of them has to be scheduled beside the busy process at each operation.
LEAST = {"train": 0.4, "encode": 0.9}

SIDE = """
import subprocess, sys, time
import bench.cli  # before torch, as every command
import torch
from itertools import count
from pathlib import Path
from bench.datasets.corpora import read_sentences
from bench.models.encoder import TransformerEncoder
from bench.models.packed_forward import Batch, forward
from bench.models.transformer import load_backbone
from bench.registry.backbones import backbone

work, threads, corpus, seconds, rounds = sys.argv[1:]
torch.set_num_threads(int(threads))
model, tokenizer = load_backbone(backbone("toy-bert").folder())
encoder = TransformerEncoder(model, tokenizer, "avg")
tokens = encoder.tokenize(read_sentences(Path(corpus), 4096))
batches = [Batch.of(tokens[start : start + 64] * 2, 0) for start in range(0, len(tokens), 64)]
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

def train(index):
    model.train()
    states = forward(model, batches[index % len(batches)], first_only=True)
    first, second = states.first(-1).chunk(2)
    (first @ second.T).logsumexp(1).mean().backward()
    optimiser.step()
    optimiser.zero_grad()
    return 64

def encode(index):
    return len(encoder.encode_tokens(tokens))

def speed():
    done, started = 0, time.perf_counter()
    for index in count():
        done += globals()[work](index)
        if (taken := time.perf_counter() - started) > float(seconds):
            return done / taken

speed()
for _ in range(int(rounds)):
    alone = speed()
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as busy:
        try:
            print(alone, speed(), flush=True)
        finally:
            busy.kill()
"""


@pytest.mark.parametrize("work", LEAST)
def test_beside_a_busy_core(benchmark, work, world):
    names = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    result = {}

    def side(name, threads, **environment):
        words = [work, str(threads), str(world / "world.txt"), str(SECONDS), str(ROUNDS)]
        told = {"env": inherited | environment, "stdout": subprocess.PIPE, "text": True}
        done = subprocess.run([sys.executable, "-c", SIDE, *words], check=True, **told)
        rows = [[float(cell) for cell in line.split()] for line in done.stdout.splitlines()]
        alone, beside = map(median, zip(*rows, strict=True))
        result[name] = alone, beside

    def sides():
        side("one thread", 1)
        side("two threads, spinning", 2, OMP_WAIT_POLICY="active")
        side("two threads", 2)

    benchmark.pedantic(sides, rounds=1)
    print(f"\n{work}, items a second: alone, beside a busy process; load {os.getloadavg()[0]:.1f}")
    for name, speeds in result.items():
        print(f"{name:24}{speeds[0]:9.0f}{speeds[1]:9.0f}")
    assert result["two threads"][1] > LEAST[work] * result["one thread"][0]
