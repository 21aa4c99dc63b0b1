"""Writes tests/oracles/training: how PyTorch trains a small character model, in float64.

    pip install torch==2.15.0 safetensors && python make_training.py

model.yaml and weights.safetensors are what training starts from, curve.csv what each of 200 steps
has: the learning rate, the gradient's norm, the loss; scores.csv the held-out score of the running
average of the weights. The text is specs/shakespeare/passage.txt. The bias of the recurrent product
stays 0, as rnnc has one bias a gate.
"""
import copy
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
SHAKESPEARE = HERE.parent.parent / "specs" / "shakespeare"
STEPS, ROWS, T, WARMUP = 200, 4, 16, 20
RATE, FINAL, CLIP, DECAY, AVERAGE = 0.02, 0.01, 0.5, 0.01, 0.9
SPEC = """# Written by tests/oracles/make_training.py.
rnnc: 1
input: {tokens: 65}
layers:
  - {embedding: 8, name: emb}
  - {cell: lstm, units: 16, return_sequences: true, name: enc}
  - {dense: 65, name: head}
weights: {file: weights.safetensors, convention: pytorch}
"""


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(65, 8)
        self.enc = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 65)
        nn.init.zeros_(self.enc.bias_hh_l0).requires_grad_(False)

    def forward(self, tokens, state=None):
        y, state = self.enc(self.emb(tokens), state)
        return self.head(y), state


def bits(logits, targets):
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) / math.log(2)


@torch.no_grad()
def score(model, text):
    span = len(text) // ROWS
    text = text[: span * ROWS].view(ROWS, span)
    return bits(model(text[:, :-1])[0], text[:, 1:]).item()


def main():
    torch.manual_seed(1)
    model = Model()
    folder = HERE / "training"
    folder.mkdir(exist_ok=True)
    (folder / "model.yaml").write_text(SPEC)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              folder / "weights.safetensors")
    model.double()
    average = copy.deepcopy(model)
    vocabulary = (SHAKESPEARE / "vocabulary.txt").read_text()
    text = torch.tensor([vocabulary.index(c) for c in (SHAKESPEARE / "passage.txt").read_text()])
    cut = len(text) - len(text) // 10
    held_out, text = text[cut:], text[:cut]
    span = (len(text) - 1) // ROWS
    adam = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad],
                             betas=(0.9, 0.99), weight_decay=DECAY)
    state, curve, scores = None, ["step,learning_rate,gradient_norm,bits_per_character"], []
    for step in range(STEPS):
        fall = FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * step / STEPS))
        adam.param_groups[0]["lr"] = rate = RATE * fall * min(1, (step + 1) / WARMUP)
        rows = torch.stack([text[row * span + step * T:][:T + 1] for row in range(ROWS)])
        logits, state = model(rows[:, :-1], state)
        state = tuple(part.detach() for part in state)
        loss = bits(logits, rows[:, 1:])
        adam.zero_grad()
        (loss * math.log(2)).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
        adam.step()
        keep = min(AVERAGE, (step + 1) / (step + 10))
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters()):
                kept.lerp_(new, 1 - keep)
        curve.append(f"{step + 1},{rate:.9g},{norm:.9g},{loss.item():.9g}")
        if (step + 1) % 50 == 0:
            scores.append(f"{step + 1},{score(average, held_out):.9g}")
    (folder / "curve.csv").write_text("\n".join(curve) + "\n")
    (folder / "scores.csv").write_text("\n".join(scores) + "\n")


if __name__ == "__main__":
    main()
