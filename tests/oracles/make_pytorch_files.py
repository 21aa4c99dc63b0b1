"""Writes tests/oracles/pytorch_files: state_dicts saved by PyTorch and what it gives on the CPU.

    pip install torch==2.15.0 numpy==2.4.6 safetensors && python make_pytorch_files.py

Each case is a folder with model.safetensors, arrays.npz and, where the weights do not say all, the
options of `rnnc import` in the file `import` or the constructors' arguments in config.json.
"""

import json

import numpy
import torch
from fixture import HERE, arrays_to, clear, random
from safetensors.torch import save_file
from torch import nn

B, T, I, H = 3, 5, 3, 4
FRAMEWORK = "pytorch_files"
CELLS = {"rnn_tanh": (nn.RNN, {"nonlinearity": "tanh"}), "lstm": (nn.LSTM, {}),
         "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}), "gru": (nn.GRU, {}),
         "lstmp": (nn.LSTM, {"proj_size": 2})}
OPTIONS = {"": {}, "layers_3": {"num_layers": 3}, "bidirectional": {"bidirectional": True},
           "bidirectional_2": {"bidirectional": True, "num_layers": 2},
           "no_bias": {"bias": False}, "no_bias_bidirectional_2": {
               "bias": False, "bidirectional": True, "num_layers": 2},
           "time_major": {"batch_first": False},
           "dropout": {"num_layers": 2, "dropout": 0.25}}


def save(name, module, x, forward=None, options="", config=None, dtype=None, states=None):
    """Draws the weights and keeps what `forward` (x) gives; `dtype`: that of the saved weights."""
    folder = HERE / FRAMEWORK / name
    folder.mkdir(parents=True)
    module.eval()
    with torch.no_grad():
        for key, value in module.named_parameters():
            value.copy_(torch.from_numpy(random(name + key, *value.shape)).to(dtype or value.dtype))
        saved = {key: value.to(dtype or value.dtype).contiguous()
                 for key, value in module.state_dict().items()}
        y = (forward or module)(torch.from_numpy(x))
    save_file(saved, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)
    if options:
        (folder / "import").write_text(options + "\n")
    if config:
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    y, final = y if isinstance(y, tuple) else (y, None)
    arrays = {"in/x": x, "out/y": y.detach().numpy()}
    if final is not None:
        final = final if isinstance(final, tuple) else (final,)
        for letter, value in zip("hc", final):
            arrays.update({f"out/{state}/{letter}": value[i].detach().numpy()
                           for i, state in enumerate(states)})
    arrays_to(folder, arrays)


def layer_options():
    for cell, (kind, own) in CELLS.items():
        for option, given in OPTIONS.items():
            name = f"{cell}_{option}" if option else cell
            arguments = {"batch_first": True, **own, **given}
            module = kind(I, H, **arguments)
            layers, sides = module.num_layers, 2 if module.bidirectional else 1
            apart = [f"rnn_l{i}" if given.get("dropout") else f"rnn/{i}" for i in range(layers)]
            states = [path + side for path in (apart if layers > 1 else ["rnn"])
                      for side in (["/fw", "/bw"] if sides == 2 else [""])]
            x = random(name + "x", B, T, I)
            if not arguments["batch_first"]:
                x = numpy.ascontiguousarray(x.transpose(1, 0, 2))
            save(name, module, x, states=states, config={
                "input_size": I, "hidden_size": H, **arguments})


def cells():
    for name, module, options in (("lstm_cell", nn.LSTMCell(I, H), ""),
                                  ("lstm_cell_no_bias", nn.LSTMCell(I, H, bias=False), ""),
                                  ("gru_cell_bias", nn.GRUCell(I, H), ""),
                                  ("rnn_cell_tanh", nn.RNNCell(I, H), " --nonlinearity tanh"),
                                  ("gru_cell", nn.GRUCell(I, H, bias=False), ""),
                                  ("rnn_cell", nn.RNNCell(I, H, nonlinearity="relu"),
                                   " --nonlinearity relu")):
        def steps(x, module=module):
            state, out = None, []
            for step in range(x.shape[1]):
                state = module(x[:, step], state)
                out.append(state[0] if isinstance(state, tuple) else state)
            return torch.stack(out, 1)
        save(name, module, random(name + "x", B, T, I), steps, "--batch-first true" + options)

    stack = nn.ModuleDict({"net": nn.ModuleDict({
        "first": nn.LSTMCell(I, H), "second": nn.GRUCell(H, H), "head": nn.Linear(H, 2)})})
    net = stack["net"]

    def decode(x):
        first, second, out = None, None, []
        for step in range(x.shape[1]):
            first = net["first"](x[:, step], first)
            second = net["second"](first[0], second)
            out.append(net["head"](second))
        return torch.stack(out, 1)
    save("cells_in_a_row", stack, random("cells x", B, T, I), decode,
         "--batch-first true --prefix net. --order first,second,head")


def models():
    tokens = numpy.random.default_rng(1).integers(0, 7, (B, T)).astype(numpy.int32)
    features = random("models", B, T, I)

    net = nn.ModuleDict({"emb": nn.Embedding(7, 5, padding_idx=0),
                         "rnn": nn.LSTM(5, H, 2, batch_first=True), "out": nn.Linear(H, 7)})
    save("language_model", net, tokens, lambda x: net["out"](net["rnn"](net["emb"](x))[0]),
         "--batch-first true")

    net2 = nn.ModuleDict({"b": nn.GRU(I, 6, batch_first=True), "a": nn.LSTM(6, H, batch_first=True),
                          "fc": nn.Linear(H, 2, bias=False)})
    save("order_by_shapes", net2, features,
         lambda x: net2["fc"](net2["a"](net2["b"](x)[0])[0]), "--batch-first true")

    net3 = nn.ModuleDict({f"rnn{i}": nn.GRU(H, H, batch_first=True) for i in (1, 2, 10)})
    save("order_by_numbers", net3, random("numbers", B, T, H),
         lambda x: net3["rnn10"](net3["rnn2"](net3["rnn1"](x)[0])[0])[0], "--batch-first true")

    net4 = nn.ModuleDict({"one": nn.GRU(H, H, batch_first=True),
                          "two": nn.LSTM(H, H, batch_first=True)})
    save("order_given", net4, random("given", B, T, H), lambda x: net4["one"](net4["two"](x)[0])[0],
         "--batch-first true --order two,one")

    net5 = nn.ModuleDict({"rnn": nn.LSTM(I, H, batch_first=True), "fc1": nn.Linear(H, 5),
                          "fc2": nn.Linear(5, 2)})
    save("activation_between", net5, features,
         lambda x: net5["fc2"](torch.relu(net5["fc1"](net5["rnn"](x)[0]))),
         config={"batch_first": True, "order": ["rnn", "fc1", "relu", "fc2"]})

    net6 = nn.ModuleDict({"rnn": nn.LSTM(I, H, 2, batch_first=True, bidirectional=True),
                          "fc": nn.Linear(2 * H, 2)})

    def last(x):
        final = net6["rnn"](x)[1][0]
        return net6["fc"](torch.cat((final[-2], final[-1]), 1))
    save("last_state", net6, features, last, "--batch-first true --return-sequences false")

    net7 = nn.ModuleDict({"encoder": nn.ModuleDict({"rnn": nn.GRU(I, H, batch_first=True)}),
                          "norm": nn.LayerNorm(H)})
    save("prefix", net7, features, lambda x: net7["encoder"]["rnn"](x)[0],
         "--prefix encoder. --batch-first true")

    net9 = nn.ModuleDict({
        "enc": nn.LSTM(I, H, 2, proj_size=2, bidirectional=True, batch_first=True),
        "dec": nn.LSTM(4, H, proj_size=3, bias=False, batch_first=True), "out": nn.Linear(3, 2)})
    save("projections_in_a_row", net9, features,
         lambda x: net9["out"](net9["dec"](net9["enc"](x)[0])[0]), "--batch-first true")

    net8 = nn.ModuleDict({"proj": nn.Linear(I, 6), "rnn": nn.LSTM(6, H, batch_first=True)})
    save("linear_before", net8, features, lambda x: net8["rnn"](net8["proj"](x))[0],
         "--batch-first true")

    square = nn.ModuleDict({"m": nn.Linear(H, H, bias=False),
                            "rnn": nn.GRU(H, H, batch_first=True)})
    save("matrix_by_type", square, random("square", B, T, H),
         lambda x: square["rnn"](square["m"](x))[0],
         config={"batch_first": True, "order": ["m", "rnn"], "m": {"type": "Linear"}})


def dtypes():
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        module = nn.GRU(I, H, batch_first=True)
        x = random(name + "x", B, T, I)
        save(name, module, x, lambda x, module=module: module(x)[0], "--batch-first true",
             dtype=dtype)


if __name__ == "__main__":
    clear(FRAMEWORK)
    layer_options()
    cells()
    models()
    dtypes()
