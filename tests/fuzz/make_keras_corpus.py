"""Writes tests/fuzz/corpus/hdf5 and keras: small files, which the fuzz targets start from and the
unit tests of the readers read.

    pip install h5py==3.16.0 numpy==2.4.6 && python make_keras_corpus.py
"""

import json
import pathlib
import shutil
import zipfile

import h5py
import numpy

HERE = pathlib.Path(__file__).parent / "corpus"


def hdf5(name, fill, **options):
    (HERE / name).parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(HERE / name, "w", **options) as out:
        fill(out)


def fill_groups(out):
    """Groups, texts of both kinds, every float."""
    out.attrs["keras_version"] = "2.4.0"
    out.attrs["fixed"] = numpy.array([b"ab", b"c"])
    out.attrs["names"] = ["one", "", "three"]
    out.attrs["number"] = 7
    values = numpy.arange(6).reshape(2, 3) / 4
    out["a/b/f4"] = values.astype("<f4")
    out["a/b/f2"] = values.astype("<f2")
    out["a/f8"] = values.astype("<f8")
    out["a/scalar"] = numpy.float32(2.5)
    out["words"] = values.astype("<f4").view("<u4") >> 16
    out["words16"] = (values.astype("<f4").view("<u4") >> 16).astype("<u2")
    out["big"] = values.astype(">f4")
    out["none"] = numpy.zeros((0, 3), "<f4")


def fill_chunks(out):
    """Chunks that do not divide the shape, under every filter."""
    values = numpy.arange(35, dtype="<f4").reshape(5, 7)
    out.create_dataset("plain", data=values, chunks=(2, 3))
    out.create_dataset("gzip", data=values, chunks=(2, 3), compression="gzip", shuffle=True)
    out.create_dataset("sum", data=values, chunks=(5, 4), compression="gzip", fletcher32=True)
    out.create_dataset("lzf", data=values, chunks=(5, 7), compression="lzf")
    out.create_dataset("holes", shape=(5, 7), chunks=(2, 3), dtype="<f4")[0, 0] = 1


def fill_many(out):
    """More links and attributes than a header holds."""
    for i in range(60):
        out[f"links/number_{i}"] = numpy.float32(i)
        out.attrs[f"text_{i}"] = f"value {i}"


def fill_soft(out):
    out["a"] = numpy.zeros(2, "<f4")
    out["b"] = h5py.SoftLink("/a")


def fill_external(out):
    out["b"] = h5py.ExternalLink("outside.h5", "/a")


def fill_elsewhere(out):
    out.create_dataset("a", (2,), "<f4", external="outside.h5")


def fill_virtual(out):
    layout = h5py.VirtualLayout((2,), "<f4")
    layout[:] = h5py.VirtualSource("outside.h5", "a", (2,))
    out.create_virtual_dataset("a", layout)


def legacy(name, layers, weights, version="2.4.0", model=None):
    """A legacy Keras file: the configuration and the weights of each layer. `model`: the class of
    the model, if not Sequential, and more of its configuration."""
    more = dict(model or {"class_name": "Sequential"})
    class_name = more.pop("class_name")
    config = {"class_name": class_name, "config": {"name": "m", "layers": layers, **more}}

    def fill(out):
        out.attrs["keras_version"] = version
        out.attrs["model_config"] = json.dumps(config)
        group = out.create_group("model_weights")
        group.attrs["layer_names"] = [layer["config"]["name"].encode() for layer in layers]
        for layer, tensors in weights.items():
            at = group.create_group(layer)
            at.attrs["weight_names"] = [key.encode() for key in tensors]
            for key, shape in tensors.items():
                size = int(numpy.prod(shape))
                at[key] = numpy.arange(size, dtype="<f4").reshape(shape) / 8
    hdf5(f"keras/{name}.h5", fill)


def keras():
    inner = {"name": "f", "units": 2, "activation": "tanh", "recurrent_activation": "hard_sigmoid",
             "return_sequences": True, "reset_after": False}
    layers = [
        {"class_name": "Embedding", "config": {"name": "e", "input_dim": 3, "output_dim": 2,
                                               "mask_zero": True, "batch_input_shape": [2, None]}},
        {"class_name": "Bidirectional",
         "config": {"name": "b", "merge_mode": "sum",
                    "layer": {"class_name": "GRU", "config": inner}}},
        {"class_name": "Dropout", "config": {"name": "r", "rate": 0.5}},
        {"class_name": "CuDNNLSTM", "config": {"name": "c", "units": 1, "stateful": True}},
        {"class_name": "Dense", "config": {"name": "d", "units": 1, "use_bias": False,
                                           "activation": "relu"}}]
    weights = {"e": {"E:0": (3, 2)},
               "b": {"fk": (2, 6), "fr": (2, 6), "fb": (6,), "bk": (2, 6), "br": (2, 6),
                     "bb": (6,)},
               "c": {"k": (2, 4), "r": (1, 4), "b": (8,)}, "d": {"k": (1, 1)}}
    legacy("legacy", layers, weights)
    with zipfile.ZipFile(HERE / "keras" / "new.keras", "w") as archive:
        new(archive)


def new(archive):
    """A .keras archive of one GRU in a Functional model with a mask; stored, so that a change is
    not lost to the checksum alone."""
    def tensor(name):
        return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_shape": [None, None]},
         "inbound_nodes": []},
        {"class_name": "Embedding", "config": {"name": "e", "input_dim": 2, "output_dim": 1,
                                               "mask_zero": True},
         "inbound_nodes": [{"args": [tensor("i")], "kwargs": {}}]},
        {"class_name": "NotEqual", "config": {"name": "n"},
         "inbound_nodes": [{"args": [tensor("i"), 0], "kwargs": {}}]},
        {"class_name": "GRU", "config": {"name": "g", "units": 1, "reset_after": True},
         "inbound_nodes": [{"args": [tensor("e")], "kwargs": {"mask": tensor("n")}}]}]
    config = {"class_name": "Functional",
              "config": {"layers": layers, "input_layers": ["i", 0, 0],
                         "output_layers": ["g", 0, 0]}}

    def fill(out):
        out["layers/embedding/vars/0"] = numpy.ones((2, 1), "<f4")
        out["layers/gru/cell/vars/0"] = numpy.ones((1, 3), "<f4")
        out["layers/gru/cell/vars/1"] = numpy.ones((1, 3), "<f4")
        out["layers/gru/cell/vars/2"] = numpy.ones((2, 3), "<f4")
    hdf5("hdf5/weights.h5", fill)
    members = {"config.json": json.dumps(config).encode(),
               "metadata.json": b'{"keras_version": "3.0.0"}',
               "model.weights.h5": (HERE / "hdf5" / "weights.h5").read_bytes()}
    for member, data in members.items():
        archive.writestr(zipfile.ZipInfo(member), data)


def functional():
    """A Functional model as Keras 2 has it."""
    def call(source, **arguments):
        return [[[source, 0, 0, arguments]]]
    layers = [
        {"class_name": "InputLayer", "config": {"name": "i", "batch_input_shape": [None, 9, 2]},
         "name": "i", "inbound_nodes": []},
        {"class_name": "Masking", "config": {"name": "m", "mask_value": -1.5}, "name": "m",
         "inbound_nodes": call("i")},
        {"class_name": "LSTM", "config": {"name": "a", "units": 1, "return_sequences": True},
         "name": "a", "inbound_nodes": call("m", training=None)},
        {"class_name": "LeakyReLU", "config": {"name": "r", "alpha": 0.25}, "name": "r",
         "inbound_nodes": call("a")},
        {"class_name": "SimpleRNN", "config": {"name": "b", "units": 1, "activation": "linear"},
         "name": "b", "inbound_nodes": call("r")}]
    legacy("functional", layers,
           {"a": {"k": (2, 4), "r": (1, 4), "b": (4,)}, "b": {"k": (1, 1), "r": (1, 1), "b": (1,)}},
           model={"class_name": "Model", "input_layers": [["i", 0, 0]],
                  "output_layers": [["b", 0, 0]]})


def weights():
    """Files of weights alone: one whose layers have one order, one where they have two."""
    def fill(out):
        out["layers/simple_rnn/cell/vars/0"] = numpy.ones((3, 2), "<f4")
        out["layers/simple_rnn/cell/vars/1"] = numpy.ones((2, 2), "<f4")
        out["layers/dense/vars/0"] = numpy.ones((2, 4), "<f4")
        out.create_group("layers/dropout/vars")
    hdf5("keras/weights.h5", fill)

    def fill_two(out):
        out["layers/lstm/cell/vars/0"] = numpy.ones((2, 8), "<f4")
        out["layers/lstm/cell/vars/1"] = numpy.ones((2, 8), "<f4")
        out["layers/dense/vars/0"] = numpy.ones((2, 2), "<f4")
    hdf5("keras/two_orders.h5", fill_two)


if __name__ == "__main__":
    for folder in ("hdf5", "keras"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    hdf5("hdf5/groups.h5", fill_groups)
    hdf5("hdf5/chunks.h5", fill_chunks)
    hdf5("hdf5/latest.h5", fill_groups, libver="latest")
    hdf5("hdf5/many.h5", fill_many, libver="latest")
    hdf5("hdf5/soft.h5", fill_soft)
    hdf5("hdf5/soft_latest.h5", fill_soft, libver="latest")
    hdf5("hdf5/external.h5", fill_external)
    hdf5("hdf5/elsewhere.h5", fill_elsewhere)
    hdf5("hdf5/virtual.h5", fill_virtual, libver="latest")
    keras()
    functional()
    weights()
