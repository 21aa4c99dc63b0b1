"""Writes tests/oracles/pytorch: what torch.nn.LSTM, GRU and RNN give on the CPU.

    pip install torch==2.15.0 numpy==2.4.6 safetensors && python make_pytorch.py

Rows of length 0 are left out: pack_padded_sequence refuses them.
"""

import numpy
import torch
from fixture import clear, random, write_case

B, T, I, H = 4, 6, 3, 4
LENGTHS = [3, 6, 1, 5]
HEADER = f"PyTorch {torch.__version__}, CPU"
CELLS = {"lstm": (torch.nn.LSTM, {}, "cell: lstm"), "gru": (torch.nn.GRU, {}, "cell: gru"),
         "rnn": (torch.nn.RNN, {"nonlinearity": "relu"}, "cell: rnn, activation: relu"),
         "lstmp": (torch.nn.LSTM, {"proj_size": 2}, "cell: lstm, projection: 2")}


def case(name, cell, layers=1, bidirectional=False, lengths=None, initial=False, bias=True,
         time_major=False):
    kind, options, keys = CELLS[cell]
    module = kind(I, H, layers, bidirectional=bidirectional, batch_first=not time_major,
                  bias=bias, **options)
    with torch.no_grad():
        for key, value in module.named_parameters():
            value.copy_(torch.from_numpy(random(name + key, *value.shape)))
    x = random(name + "x", *((T, B, I) if time_major else (B, T, I)))
    directions = 2 if bidirectional else 1
    states = "hc" if cell in ("lstm", "lstmp") else "h"
    sizes = [options.get("proj_size", H) if state == "h" else H for state in states]
    names = [f"enc{f'/{layer}' if layers > 1 else ''}{side}"
             for layer in range(layers) for side in (["/fw", "/bw"] if bidirectional else [""])]
    start = [random(name + state, layers * directions, B, size) if initial
             else numpy.zeros((layers * directions, B, size), numpy.float32)
             for state, size in zip(states, sizes)]
    given = [torch.from_numpy(value) for value in start]
    value = torch.from_numpy(x)
    if lengths:
        value = torch.nn.utils.rnn.pack_padded_sequence(value, torch.tensor(lengths),
                                                        not time_major, enforce_sorted=False)
    with torch.no_grad():
        y, final = module(value, tuple(given) if len(given) > 1 else given[0])
    if lengths:
        y = torch.nn.utils.rnn.pad_packed_sequence(y, not time_major, total_length=T)[0]
    final = final if len(states) > 1 else [final]
    arrays = {"in/x": x}
    if lengths:
        arrays["lengths"] = numpy.array(lengths, numpy.int32)
    for state, value in zip(states, start):
        if initial:
            arrays.update({f"state/{names[i]}/{state}": value[i] for i in range(len(names))})
    arrays["out/y"] = y.numpy()
    for state, value in zip(states, final):
        arrays.update({f"out/{names[i]}/{state}": value[i].numpy() for i in range(len(names))})
    words = (f"{keys}, units: {H}, layers: {layers}, return_sequences: true, return_state: true, "
             f"use_bias: {str(bias).lower()}")
    layer = (f"{{name: enc, bidirectional: {{layer: {{{words}}}}}}}" if bidirectional
             else f"{{name: enc, {words}}}")
    layout = ", layout: time_major" if time_major else ""
    weights = {f"model.enc.{key}": value.detach().numpy()
               for key, value in module.named_parameters()}
    write_case("pytorch", name, f"input: {{features: {I}, batch: any, timesteps: any{layout}}}\n"
               f"layers:\n  - {layer}", weights, arrays, convention="pytorch, prefix: model.",
               header=HEADER)


if __name__ == "__main__":
    clear("pytorch")
    for cell_name in CELLS:
        case(cell_name, cell_name)
        case(f"{cell_name}_packed", cell_name, lengths=LENGTHS, initial=True)
        case(f"{cell_name}_bidirectional_2", cell_name, 2, True, initial=True)
        case(f"{cell_name}_bidirectional_2_packed", cell_name, 2, True, LENGTHS)
    case("lstm_stack_3", "lstm", 3, initial=True)
    case("gru_no_bias", "gru", bias=False)
    case("lstm_time_major", "lstm", time_major=True, initial=True)
    case("gru_time_major_bidirectional_packed", "gru", 2, True, LENGTHS, time_major=True)
