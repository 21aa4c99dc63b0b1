"""Trains the model of tests/oracles/training with rnnc and holds it against PyTorch's training.

    check_training.py RNNC FOLDER

Then it trains again, is killed at several moments and resumed, and must end with the same bytes:
the weights, the log, the checkpoint. Needs nothing beyond Python's own library.
"""
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# float32 against float64, after up to 200 steps that go on from each other's rounding.
TOLERANCE = 2e-5
WORDS = ("--steps 200 --batch 4 --timesteps 16 --warmup 20 --learning-rate 0.02 --clip 0.5 "
         "--weight-decay 0.01 --average 0.9 --evaluate-every 50 --checkpoint-every 10 "
         "--vocab vocabulary.txt --data passage.txt -o out.safetensors --log log.csv").split()
KILLS = 6


def rows(text):
    return [[float(part) for part in line.split(",")] for line in text.splitlines()
            if line[:1].isdigit()]


def compare(name, found, expected):
    if len(found) != len(expected):
        return [f"{name}: {len(found)} lines, not {len(expected)}"]
    worst = max((abs(a - b) / max(1, abs(b)), f, e) for f, e in zip(found, expected)
                for a, b in zip(f, e))
    print(f"{name}: at most {worst[0]:.2g} off")
    return [f"{name}: {worst[1]}, not {worst[2]}"] if not worst[0] <= TOLERANCE else []


def prepare(folder, scratch, name):
    work = scratch / name
    shutil.copytree(folder, work)
    for file in ("passage.txt", "vocabulary.txt"):
        shutil.copy(folder.parents[2] / "specs" / "shakespeare" / file, work)
    return work


def train_whole(rnnc, work, folder):
    run = subprocess.run([rnnc, "train", "model.yaml", *WORDS], cwd=work, text=True,
                         capture_output=True, check=False)
    if run.returncode:
        return [f"exit {run.returncode}: {run.stderr}"]
    scores = [[float(words[1].rstrip(":")), float(words[6])] for words in
              (line.split() for line in run.stdout.splitlines()) if words[0] == "step"]
    return (compare("steps", rows((work / "log.csv").read_text()),
                    rows((folder / "curve.csv").read_text())) +
            compare("scores", scores, rows((folder / "scores.csv").read_text())))


def train_in_pieces(rnnc, work):
    """Kills the training KILLS times, with and without a warning, when it has gone on by steps."""
    command = [rnnc, "train", "model.yaml", *WORDS, "--resume"]
    log, seen, killed = work / "log.csv", 0, 0
    for kill in range(KILLS):
        with subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL) as run:
            limit = time.monotonic() + 60
            while run.poll() is None and time.monotonic() < limit:
                if log.exists() and log.stat().st_size > seen:
                    break
            time.sleep(0.003 * kill)
            killed += run.poll() is None
            run.send_signal(signal.SIGINT if kill % 2 else signal.SIGKILL)
        seen = log.stat().st_size if log.exists() else 0
    code = subprocess.run(command, cwd=work, stdout=subprocess.DEVNULL, check=False).returncode
    return [f"exit {code} when resumed"] if code else \
        [] if killed >= KILLS // 2 else [f"only {killed} kills met a training under way"]


def main(rnnc, folder):
    rnnc, folder = str(pathlib.Path(rnnc).resolve()), pathlib.Path(folder).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        whole = prepare(folder, pathlib.Path(scratch), "whole")
        pieces = prepare(folder, pathlib.Path(scratch), "pieces")
        faults = train_whole(rnnc, whole, folder)
        faults += train_in_pieces(rnnc, pieces)
        for name in ("out.safetensors", "log.csv", "out.safetensors.checkpoint"):
            if not faults and (whole / name).read_bytes() != (pieces / name).read_bytes():
                faults.append(f"{name} differs after {KILLS} kills")
    print("\n".join(faults) or f"as PyTorch trains; the same bits after {KILLS} kills")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
