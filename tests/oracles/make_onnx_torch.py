"""Writes tests/oracles/onnx_torch: models that PyTorch exported to ONNX, with what PyTorch gives.

    pip install torch==2.15.0 onnx==1.23.2 onnxscript numpy==2.4.6 safetensors
    python make_onnx_torch.py

The exporters put Shape, Gather, Concat, ConstantOfShape and their like around initial states, Slice
and Concat around those of several layers, and Transpose and Reshape between layers.
"""

import shutil
import warnings

import numpy
import onnx
import torch
from fixture import HERE
from onnx import numpy_helper
from torch import nn

ROOT = HERE / "onnx_torch"
B, T, I, H = 3, 5, 4, 3


class Tagger(nn.Module):
    """Tokens to a class a step, over a bidirectional stack."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, I)
        self.encoder = nn.LSTM(I, H, num_layers=2, bidirectional=True, batch_first=True,
                               dropout=0.2)
        self.head = nn.Linear(2 * H, 5)

    def forward(self, x):
        y, (h, c) = self.encoder(self.embedding(x))
        return torch.relu(self.head(y)), h, c


class LastStep(nn.Module):
    """The last step of a stack through two dense layers."""

    def __init__(self, kind=nn.GRU, batch_first=True):
        super().__init__()
        self.batch_first = batch_first
        self.encoder = kind(I, H, num_layers=2, batch_first=batch_first, bias=kind is not nn.RNN)
        self.head = nn.Sequential(nn.Linear(H, 6), nn.ELU(0.5), nn.Dropout(0.3), nn.Linear(6, 2))

    def forward(self, x):
        y, _ = self.encoder(x)
        return self.head(y[:, -1] if self.batch_first else y[-1])


class BothStates(nn.Module):
    """The final states of both directions, joined."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(I, H, bidirectional=True)
        self.head = nn.Linear(2 * H, 2)

    def forward(self, x):
        _, (h, _) = self.encoder(x)
        return torch.tanh(self.head(torch.cat((h[-2], h[-1]), 1)))


class States(nn.Module):
    """States of a stack in and out."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(I, H, num_layers=2)

    def forward(self, x, h, c):
        y, (h, c) = self.encoder(x, (h, c))
        return y, h, c


class Packed(nn.Module):
    """Rows of different lengths."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(I, H, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y, h = self.encoder(packed)
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0], h


class Relu(nn.Module):
    """The plain cell with relu, time first."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.RNN(I, H, nonlinearity="relu")

    def forward(self, x):
        return self.encoder(x)


class Unbatched(nn.Module):
    """One row without a batch axis, in steps of two by two."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(I, H)
        self.head = nn.Linear(H, 2)

    def forward(self, x):
        y, (h, _) = self.encoder(x.flatten(1))
        return self.head(y), h


class OneStep(nn.Module):
    """A decoder's step: the state goes in and comes out."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(I, H)
        self.head = nn.Linear(H, 2)

    def forward(self, x, h):
        y, h = self.cell(x.unsqueeze(0), h)
        return self.head(y.squeeze(0)), h


def save(folder, kind, index, array, name):
    data = folder / "test_data_set_0"
    data.mkdir(exist_ok=True)
    (data / f"{kind}_{index}.pb").write_bytes(
        numpy_helper.from_array(numpy.ascontiguousarray(array), name).SerializeToString())


def strip(path):
    """Takes out where on this machine the exporter was called from."""
    model = onnx.load(path)
    for item in [model, model.graph, *model.graph.node, *model.graph.value_info,
                 *model.graph.input, *model.graph.output]:
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    onnx.save(model, path)


def case(name, model, inputs, dynamo=False, **axes):
    """`axes`: those of each input that stay open, by name."""
    folder = ROOT / name
    folder.mkdir(parents=True)
    names = list(inputs)
    model.eval()
    arguments = {"dynamic_axes": axes} if not dynamo else {
        "dynamic_shapes": tuple(
            {axis: torch.export.Dim(word) for axis, word in axes[key].items()} for key in names)
    } if axes else {}
    torch.onnx.export(model, tuple(inputs.values()), str(folder / "model.onnx"), dynamo=dynamo,
                      input_names=names, external_data=False, verbose=False, **arguments)
    strip(folder / "model.onnx")
    with torch.no_grad():
        outputs = model(*inputs.values())
    flat = []
    for item in outputs if isinstance(outputs, tuple) else (outputs,):
        flat += item if isinstance(item, tuple) else (item,)
    for i, (key, tensor) in enumerate(inputs.items()):
        save(folder, "input", i, tensor.numpy(), key)
    for i, tensor in enumerate(flat):
        save(folder, "output", i, tensor.numpy(), f"y{i}")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    warnings.simplefilter("ignore")
    torch.manual_seed(7)
    tokens, data = torch.randint(0, 7, (B, T)), torch.randn(B, T, I)
    open_batch = {0: "batch", 1: "time"}
    open_time = {0: "time", 1: "batch"}
    steps = data.transpose(0, 1).contiguous()
    tagger = Tagger()
    case("tagger_fixed", tagger, {"x": tokens})
    case("tagger_open", tagger, {"x": tokens}, x=open_batch)
    case("last_gru", LastStep(), {"x": data}, x=open_batch)
    case("last_gru_one_row", LastStep(), {"x": data[:1]})
    case("last_lstm_time_first", LastStep(nn.LSTM, False), {"x": steps}, x=open_time)
    case("last_rnn_without_bias", LastStep(nn.RNN), {"x": data}, x=open_batch)
    case("both_states", BothStates(), {"x": steps}, x=open_time)
    case("states", States(), {"x": steps, "h": torch.randn(2, B, H), "c": torch.randn(2, B, H)},
         x=open_time, h={1: "batch"}, c={1: "batch"})
    case("packed", Packed(), {"x": data, "lengths": torch.tensor([5, 4, 2])}, x=open_batch,
         lengths={0: "batch"})
    case("relu", Relu(), {"x": steps}, x=open_time)
    case("unbatched", Unbatched(), {"x": torch.randn(T, 2, 2)}, x={0: "time"})
    case("one_step", OneStep(), {"x": data[:, 0], "h": torch.randn(1, B, H)}, x={0: "batch"},
         h={1: "batch"})
    case("dynamo_tagger", tagger, {"x": tokens}, dynamo=True)
    case("dynamo_last_gru", LastStep(), {"x": data}, dynamo=True, x=open_batch)
    case("dynamo_both_states", BothStates(), {"x": steps}, dynamo=True)


if __name__ == "__main__":
    main()
