"""Trains the character model of specs/shakespeare.yaml and scores it.

    python3 train.py TEXT FOLDER            train; FOLDER gets vocabulary.txt, passage.txt,
                                            weights.safetensors and score.json
    python3 train.py TEXT FOLDER --score    score the weights in FOLDER on the CPU, no training

The text is cut in two: the first 90 % train, the last 10 % are held out. A token is a
character's place in the sorted set of the text's characters. The model is

    tokens [B, T] -> embedding [B, T, 64] -> GRU [B, T, 512] -> dense [B, T, vocabulary]

with torch.nn.GRU's equations (reset after the recurrent product). The training rows run through
the text side by side and carry their state from one step to the next. Dropout, on both sides of
the GRU and, if asked for, on its recurrent weights, exists in training only. What is saved is a
running average of the weights, each time it is the best so far on the held-out part.
"""
import argparse
import json
import math
import pathlib
import time
import warnings

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

EMBEDDING, UNITS, PASSAGE_CHARS = 64, 512, 20000


class Model(nn.Module):
    """Submodule names are the spec's layer names, so that state_dict() is the weight file."""

    def __init__(self, vocabulary_size, options=None):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, EMBEDDING)
        self.gru = nn.GRU(EMBEDDING, UNITS, batch_first=True)
        self.dense = nn.Linear(UNITS, vocabulary_size)
        self.options = options

    def forward(self, tokens, h=None):
        """tokens [B, T], h [1, B, UNITS] or None for zeros -> logits [B, T, vocabulary], h."""
        x = self.embedding(tokens)
        if not self.training:
            y, h = self.gru(x, h)
            return self.dense(y), h
        o = self.options
        if h is None:
            h = x.new_zeros(1, len(x), UNITS)
        x = functional.dropout(x, o.dropout_embedding)
        w_hh = functional.dropout(self.gru.weight_hh_l0, o.dropout_recurrent_weights)
        weights = [self.gru.weight_ih_l0, w_hh, self.gru.bias_ih_l0, self.gru.bias_hh_l0]
        y, h = torch.gru(x, h, weights, True, 1, 0.0, True, False, True)
        return self.dense(functional.dropout(y, o.dropout_output)), h


def read_text(path):
    """-> vocabulary (bytes in token order), tokens [chars] int64."""
    raw = pathlib.Path(path).read_bytes()
    vocabulary = bytes(sorted(set(raw)))
    place = torch.zeros(256, dtype=torch.int64)
    place[list(vocabulary)] = torch.arange(len(vocabulary))
    return vocabulary, place[torch.frombuffer(bytearray(raw), dtype=torch.uint8).long()]


def split(tokens):
    cut = len(tokens) * 9 // 10
    return tokens[:cut], tokens[cut:]


def training_steps(tokens, rows, timesteps):
    """Yields (inputs, targets, fresh), [rows, timesteps] each; fresh: the state starts anew.

    Every pass over the text starts at another character, so that rows and steps are cut elsewhere.
    """
    span = (len(tokens) - 1) // rows
    while True:
        turned = tokens.roll(-int(torch.randint(len(tokens), ())))
        inputs = turned[: span * rows].view(rows, span)
        targets = turned[1 : span * rows + 1].view(rows, span)
        for t in range(0, span - timesteps + 1, timesteps):
            yield inputs[:, t : t + timesteps], targets[:, t : t + timesteps], t == 0


@torch.no_grad()
def bits_per_char(model, tokens, rows=1):
    """Mean over characters 2..N of each row, the state zero at its start; the sum in float64."""
    model.eval()
    span = len(tokens) // rows
    tokens = tokens[: span * rows].view(rows, span)
    nats, h = 0.0, None
    for t in range(0, span - 1, 1000):
        inputs, targets = tokens[:, t : t + 1000], tokens[:, t + 1 : t + 1001]
        logits, h = model(inputs[:, : targets.shape[1]], h)
        losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        nats += losses.double().sum().item()
    return nats / (rows * (span - 1)) / math.log(2)


def learning_rate(options, step, progress):
    """Linear over the first 200 steps, then half a cosine down to a hundredth."""
    fall = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress))
    return options.learning_rate * fall * min(1.0, (step + 1) / 200)


def train(options, vocabulary, tokens):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    device_name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    training, held_out = (part.to(device) for part in split(tokens))
    torch.manual_seed(options.seed)
    model = Model(len(vocabulary), options).to(device)
    average = Model(len(vocabulary)).to(device)
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99),
                                  weight_decay=options.weight_decay)
    best, start, h = math.inf, time.monotonic(), None
    for step, batch in enumerate(training_steps(training, options.batch, options.timesteps)):
        seconds = time.monotonic() - start
        progress = max(step / options.steps, seconds / options.seconds)
        if step and (step % options.evaluate_every == 0 or progress >= 1):
            score = bits_per_char(average, held_out, rows=20)
            print(f"step {step}, {seconds:.0f} s: training {loss.item() / math.log(2):.3f}, "
                  f"held out {score:.4f} bits/char", flush=True)
            if score < best:
                best = score
                save(options, average, {"best_step": step, "steps": step, "seconds": seconds,
                                        "device": device_name, "torch": torch.__version__})
        if progress >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step, progress)
        inputs, targets, fresh = batch
        model.train()
        logits, h = model(inputs, None if fresh else h.detach())
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        keep = min(options.average, (step + 1) / (step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
    update_score(options, steps=step, seconds=round(seconds, 1))


def save(options, model, facts):
    """Writes the weights, whole or not at all, and what score.json says about the training."""
    weights = {name: w.detach().cpu().contiguous() for name, w in model.state_dict().items()}
    target = options.folder / "weights.safetensors"
    save_file(weights, target.with_suffix(".part"))
    target.with_suffix(".part").replace(target)
    kept = {key: value for key, value in vars(options).items()
            if key not in ("text", "folder", "score", "steps", "seconds")}
    (options.folder / "score.json").unlink(missing_ok=True)
    update_score(options, **facts, hyperparameters=kept)


def update_score(options, scores=None, **training):
    path = options.folder / "score.json"
    record = json.loads(path.read_text()) if path.exists() else {"training": {}}
    record["training"].update(training)
    record.update(scores or {})
    path.write_text(json.dumps(record, indent=2) + "\n")


def score(options, vocabulary, tokens):
    """One sequence, batch 1, zero initial state, on the CPU; once per float type."""
    held_out = split(tokens)[1]
    model = Model(len(vocabulary))
    model.load_state_dict(load_file(options.folder / "weights.safetensors"))
    passage = held_out[:PASSAGE_CHARS]
    scores = {"passage_chars": len(passage), "passage_predicted": len(passage) - 1,
              "held_out_chars": len(held_out), "torch": torch.__version__}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        model.to(dtype)
        scores[f"passage_bits_per_char_{name}"] = bits_per_char(model, passage)
        scores[f"held_out_bits_per_char_{name}"] = bits_per_char(model, held_out)
    update_score(options, scores)
    print(json.dumps(scores, indent=2))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", help="the text to learn, one byte a character")
    parser.add_argument("folder", type=pathlib.Path, help="where the results go")
    parser.add_argument("--score", action="store_true", help="score the folder's weights only")
    parser.add_argument("--steps", type=int, default=12751)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop training by then")
    parser.add_argument("--evaluate-every", type=int, default=250, help="steps")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--timesteps", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--average", type=float, default=0.999, help="kept by the running average")
    parser.add_argument("--dropout-embedding", type=float, default=0.1)
    parser.add_argument("--dropout-output", type=float, default=0.5)
    parser.add_argument("--dropout-recurrent-weights", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
    options = parse_options()
    options.folder.mkdir(parents=True, exist_ok=True)
    vocabulary, tokens = read_text(options.text)
    if options.score:
        score(options, vocabulary, tokens)
        return
    (options.folder / "vocabulary.txt").write_bytes(vocabulary)
    passage = split(tokens)[1][:PASSAGE_CHARS]
    (options.folder / "passage.txt").write_bytes(bytes(vocabulary[i] for i in passage.tolist()))
    train(options, vocabulary, tokens)


if __name__ == "__main__":
    main()
