#!/usr/bin/env python3
"""Times `rnnc generate` against a loop of PyTorch, both on one core or one GPU of this machine, at
batch 1.

    python3 -m venv env && env/bin/pip install torch numpy
    env/bin/python benchmarks/generate_vs_pytorch.py --build build [--device cuda] [--tokens 1000]
        [--turns 5]

The loop is embedding, torch.nn.GRU, linear, softmax and multinomial, token by token, in the
module's precision: float32, and float16 as well on a GPU. Weights are random, of the model's sizes.
The two take turns; prints the fastest turn of each in microseconds a token, and the ratio. On a GPU
rnnc makes 100 times as many tokens, so that its start counts for as little as the loop's.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import torch

# model, vocabulary, embedding, units
MODELS = (("shakespeare", 65, 64, 512), ("text_generation", 66, 256, 1024))
SPEC = """rnnc: 1
input: {tokens: %d, batch: 1, timesteps: any}
layers:
  - {embedding: %d}
  - {cell: gru, units: %d, return_sequences: true}
  - {dense: %d}
weights: {seed: 1}
compile: {precision: %s}
"""


def pytorch_us(sizes, precision, device, tokens):
    vocabulary, width, units = sizes
    kind = {"device": device, "dtype": getattr(torch, precision)}
    embedding = torch.nn.Embedding(vocabulary, width, **kind)
    gru = torch.nn.GRU(width, units, **kind)
    dense = torch.nn.Linear(units, vocabulary, **kind)
    token, state = torch.zeros(1, 1, dtype=torch.long, device=device), None
    with torch.inference_mode():
        for step in range(-100, tokens):
            if step == 0:
                if device == "cuda":
                    torch.cuda.synchronize()
                begin = time.perf_counter()
            y, state = gru(embedding(token), state)
            token = torch.multinomial(torch.softmax(dense(y[0]), -1), 1)
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / tokens * 1e6


def rnnc_us(rnnc, module, device, characters, tokens):
    done = subprocess.run([rnnc, "generate", module, "--device", device, "--vocab", characters,
                           "--prompt", "a", "-n", str(tokens)], capture_output=True, text=True)
    time_us = re.search(r"([0-9.]+) us a step", done.stderr)
    if done.returncode or not time_us:
        sys.exit(done.stderr)
    return float(time_us.group(1))


def compile_model(rnnc, folder, sizes, precision, device):
    vocabulary, width, units = sizes
    spec, module = os.path.join(folder, "model.yaml"), os.path.join(folder, "model.so")
    with open(spec, "w", encoding="utf-8") as file:
        file.write(SPEC % (vocabulary, width, units, vocabulary, precision))
    target = "cpu" if device == "cpu" else "sm_%d%d" % torch.cuda.get_device_capability()
    subprocess.run([rnnc, spec, "--target", target, "-o", module], check=True, capture_output=True)
    return module


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", default="build")
    arguments.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments.add_argument("--tokens", type=int, default=1000)
    arguments.add_argument("--turns", type=int, default=5)
    options = arguments.parse_args()
    device = options.device
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    if device == "cpu":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        torch.set_num_threads(1)
    rnnc = os.path.join(options.build, "rnnc")
    print("model            precision   rnnc us   PyTorch us   ratio")
    with tempfile.TemporaryDirectory() as folder:
        for name, *sizes in MODELS:
            characters = os.path.join(folder, "characters.txt")
            with open(characters, "w", encoding="utf-8") as file:
                file.write("".join(chr(ord("!") + i) for i in range(sizes[0])))
            for precision in ("float32",) if device == "cpu" else ("float32", "float16"):
                module = compile_model(rnnc, folder, sizes, precision, device)
                tokens = options.tokens * (100 if device == "cuda" else 1)
                turns = [(rnnc_us(rnnc, module, device, characters, tokens),
                          pytorch_us(sizes, precision, device, options.tokens))
                         for _ in range(options.turns)]
                ours, theirs = (min(column) for column in zip(*turns))
                print(f"{name:16s} {precision:9s} {ours:9.2f} {theirs:12.1f} {theirs / ours:7.1f}")


if __name__ == "__main__":
    main()
