#!/usr/bin/env python3
"""Times `rnnc generate` against a loop of PyTorch, both on one core of this machine, at batch 1.

    python3 -m venv env && env/bin/pip install torch numpy
    env/bin/python benchmarks/generate_vs_pytorch.py --build build [--tokens 1000] [--turns 5]

The loop is embedding, torch.nn.GRU, linear, softmax and multinomial in float32, token by token,
with weights of the model's sizes. The two take turns; prints the fastest turn of each in
microseconds a token, and the ratio.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

import torch

# spec, vocabulary, embedding, units
MODELS = (("shakespeare", 65, 64, 512), ("text_generation", 66, 256, 1024))


def pytorch_us(vocabulary, width, units, tokens):
    embedding = torch.nn.Embedding(vocabulary, width)
    gru = torch.nn.GRU(width, units)
    dense = torch.nn.Linear(units, vocabulary)
    token, state = torch.zeros(1, 1, dtype=torch.long), None
    with torch.inference_mode():
        begin = time.perf_counter()
        for _ in range(tokens):
            y, state = gru(embedding(token), state)
            token = torch.multinomial(torch.softmax(dense(y[0]), -1), 1)
        return (time.perf_counter() - begin) / tokens * 1e6


def rnnc_us(rnnc, module, characters, tokens):
    done = subprocess.run([rnnc, "generate", module, "--device", "cpu", "--vocab", characters,
                           "--prompt", "a", "-n", str(tokens)], capture_output=True, text=True)
    time_us = re.search(r"([0-9.]+) us a step", done.stderr)
    if done.returncode or not time_us:
        sys.exit(done.stderr)
    return float(time_us.group(1))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", default="build")
    arguments.add_argument("--tokens", type=int, default=1000)
    arguments.add_argument("--turns", type=int, default=5)
    options = arguments.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    rnnc = os.path.join(options.build, "rnnc")
    print("model              rnnc us   PyTorch us   ratio")
    with tempfile.TemporaryDirectory() as folder:
        for name, vocabulary, width, units in MODELS:
            module = os.path.join(folder, name + ".so")
            subprocess.run([rnnc, f"specs/{name}.yaml", "--target", "cpu", "-o", module],
                           check=True, capture_output=True)
            characters = os.path.join(folder, "characters.txt")
            with open(characters, "w", encoding="utf-8") as file:
                file.write("".join(chr(ord("!") + i) for i in range(vocabulary)))
            turns = [(rnnc_us(rnnc, module, characters, options.tokens),
                      pytorch_us(vocabulary, width, units, options.tokens))
                     for _ in range(options.turns)]
            ours, theirs = (min(column) for column in zip(*turns))
            print(f"{name:16s} {ours:9.1f} {theirs:12.1f} {theirs / ours:7.1f}")


if __name__ == "__main__":
    main()
