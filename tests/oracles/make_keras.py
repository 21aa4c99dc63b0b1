"""Writes tests/oracles/keras: what Keras itself gives on its torch back end.

    pip install keras==3.15.1 numpy==2.4.6 torch==2.15.0 safetensors && python make_keras.py

Weight names are variable.path, as a model has them. The JAX back end gives the same (run with
KERAS_BACKEND=jax) but where a row begins with masked steps and an initial state is given: it
repeats that state, where PyTorch's and TensorFlow's write 0.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import numpy  # noqa: E402
from keras.ops import convert_to_numpy as convert  # noqa: E402
from fixture import clear, random, write_case  # noqa: E402

B, T, I, H = 4, 5, 3, 4
HEADER = f"Keras {keras.__version__}, {keras.backend.backend()} back end"
MASKS = {
    "holes": [[1, 0, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [1, 0, 0, 0, 1]],
    "left": [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 0, 1]],
    "full": [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]],
}


def fill(layer, name):
    layer.set_weights([random(f"{name}/{i}", *value.shape)
                       for i, value in enumerate(layer.get_weights())])
    return {variable.path: convert(variable.value) for variable in layer.weights}


def arrays_of(x, outputs, mask=None, states=None):
    arrays = {"in/x": x}
    if mask is not None:
        arrays["mask"] = numpy.array(mask, numpy.uint8)
    arrays.update({f"state/{key}": value for key, value in (states or {}).items()})
    arrays.update({f"out/{key}": convert(value) for key, value in outputs.items()})
    return arrays


def spec_of(layers, batch="any", features=I):
    lines = "\n".join(f"  - {layer}" for layer in layers)
    return f"input: {{features: {features}, batch: {batch}, timesteps: any}}\nlayers:\n{lines}"


def one(name, make, keys, mask=None, states=(), initial=False):
    """One recurrent layer `enc`; `states`: names of its final states, which are outputs too."""
    layer = make(return_state=True, name="enc")
    x = random(name + "x", B, T, I)
    layer.build(x.shape)
    weights = fill(layer, name)
    given = {f"enc/{state}": random(name + state, B, H) for state in states} if initial else {}
    bits = None if mask is None else numpy.array(MASKS[mask], bool)
    result = layer(x, mask=bits, initial_state=list(given.values()) or None)
    outputs = dict(zip(["y"] + [f"enc/{state}" for state in states], result))
    write_case("keras", name, spec_of([f"{{name: enc, {keys}, return_state: true}}"]), weights,
               arrays_of(x, outputs, bits, given), header=HEADER)


CELLS = {
    "lstm": (keras.layers.LSTM, {}, "cell: lstm", "hc"),
    "gru": (keras.layers.GRU, {}, "cell: gru", "h"),
    "gru_before": (keras.layers.GRU, {"reset_after": False}, "cell: gru, reset_after: false", "h"),
    "rnn": (keras.layers.SimpleRNN, {"activation": "relu"}, "cell: rnn, activation: relu", "h"),
}


def cells():
    for cell, (kind, options, keys, states) in CELLS.items():
        for suffix, more, words in [
                ("", {"return_sequences": True}, "return_sequences: true"),
                ("_last", {}, "return_sequences: false"),
                ("_backwards", {"return_sequences": True, "go_backwards": True},
                 "return_sequences: true, go_backwards: true"),
                ("_no_bias", {"return_sequences": True, "use_bias": False},
                 "return_sequences: true, use_bias: false")]:
            one(cell + suffix, lambda kind=kind, options=options, more=more, **names:
                kind(H, **options, **more, **names), f"{keys}, units: {H}, {words}", None, states,
                initial=suffix in ("_backwards", "_last"))
    one("lstm_activations",
        lambda **names: keras.layers.LSTM(H, activation="softsign", return_sequences=True,
                                          recurrent_activation="hard_sigmoid", **names),
        f"cell: lstm, units: {H}, activation: softsign, recurrent_activation: hard_sigmoid, "
        "return_sequences: true", None, "hc")


def masks():
    for mask in MASKS:
        for cell, (kind, options, keys, states) in CELLS.items():
            for suffix, more, words in [
                    ("", {"return_sequences": True}, "return_sequences: true"),
                    ("_zero", {"return_sequences": True, "zero_output_for_mask": True},
                     "return_sequences: true, zero_output_for_mask: true"),
                    ("_last", {}, "return_sequences: false"),
                    ("_zero_last", {"zero_output_for_mask": True}, "zero_output_for_mask: true"),
                    ("_backwards", {"return_sequences": True, "go_backwards": True},
                     "return_sequences: true, go_backwards: true"),
                    ("_backwards_zero",
                     {"return_sequences": True, "go_backwards": True,
                      "zero_output_for_mask": True},
                     "return_sequences: true, go_backwards: true, zero_output_for_mask: true"),
                    ("_backwards_last", {"go_backwards": True}, "go_backwards: true")]:
                few = (cell in ("gru_before", "rnn") or mask == "left" or
                       (mask == "full" and cell == "gru"))
                if few and suffix not in ("", "_backwards"):
                    continue
                one(f"mask_{mask}_{cell}{suffix}",
                    lambda kind=kind, options=options, more=more, **names:
                    kind(H, **options, **more, **names), f"{keys}, units: {H}, {words}", mask,
                    states, initial=mask == "full")


def bidirectional_case(name, merge, inner, words, backward=None, backward_words=None, mask=None):
    layer = keras.layers.Bidirectional(inner, backward_layer=backward, name="enc",
                                       merge_mode=None if merge == "none" else merge)
    x = random(name + "x", B, T, I)
    layer.build(x.shape)
    weights = fill(layer, name)
    bits = None if mask is None else numpy.array(MASKS[mask], bool)
    result = layer(x, mask=bits)
    outputs = {"y/fw": result[0], "y/bw": result[1]} if merge == "none" else {"y": result}
    other = f", backward: {{{backward_words}}}" if backward_words else ""
    write_case("keras", name, spec_of([f"{{name: enc, bidirectional: {{merge: {merge}, "
                                       f"layer: {{{words}}}{other}}}}}"]),
               weights, arrays_of(x, outputs, bits), header=HEADER)


def bidirectional():
    for merge in ("concat", "sum", "mul", "ave", "none"):
        for sequences in (True, False):
            for mask in (None, "holes") if merge not in ("sum", "ave") else (None,):
                bidirectional_case(
                    f"bidirectional_{merge}_{'sequences' if sequences else 'last'}"
                    f"{'_mask' if mask else ''}", merge,
                    keras.layers.LSTM(H, return_sequences=sequences, name="lstm"),
                    f"cell: lstm, units: {H}, return_sequences: {str(sequences).lower()}",
                    mask=mask)
    for mask in (None, "full"):
        bidirectional_case(
            f"bidirectional_other{'_mask' if mask else ''}", "concat",
            keras.layers.LSTM(H, return_sequences=True, name="lstm"),
            f"cell: lstm, units: {H}, return_sequences: true",
            keras.layers.GRU(H, return_sequences=True, go_backwards=True, name="gru"),
            f"cell: gru, units: {H}, return_sequences: true", mask)


def model_case(name, layers, words, x, mask=None, run=None, calls=1, batch="any", spec=None):
    shape = (x.shape[0],) + x.shape[1:]
    inputs = keras.Input(batch_shape=(shape[0], None) + shape[2:], dtype=x.dtype)
    value = inputs
    for layer in layers:
        value = layer(value)
    model = keras.Model(inputs, value)
    weights = fill(model, name)
    steps = x.shape[1] // calls
    y = [convert(model(x[:, i * steps:(i + 1) * steps])) for i in range(calls)]
    y = numpy.concatenate(y, 1) if y[0].ndim == 3 else y[-1]
    write_case("keras", name, spec or spec_of(words, batch, x.shape[-1]), weights,
               arrays_of(x, {"y": y}, mask), run=run, header=HEADER)


def models():
    layers = keras.layers
    x = random("masking", B, T, I)
    x[0, 0] = x[0, 3] = x[1, 4] = x[2] = 0.5
    x[3, 1, 1] = 0.5
    stack = ["{masking: 0.5}",
             "{name: a, cell: lstm, units: 4, return_sequences: true, go_backwards: true}",
             "{name: b, cell: gru, units: 3, return_sequences: true}",
             "{name: c, cell: rnn, units: 5}", "{name: out, dense: 2}"]
    model_case("masking_stack",
               [layers.Masking(0.5), layers.LSTM(4, return_sequences=True, go_backwards=True,
                                                 name="a"),
                layers.GRU(3, return_sequences=True, name="b"), layers.SimpleRNN(5, name="c"),
                layers.Dense(2, name="out")], stack, x)
    model_case("masking_bidirectional",
               [layers.Masking(0.5),
                layers.Bidirectional(layers.GRU(3, return_sequences=True), name="a"),
                layers.LSTM(4, return_sequences=True, name="b"),
                layers.Dense(2, activation="tanh", name="out")],
               ["{masking: 0.5}",
                "{name: a, bidirectional: {layer: {cell: gru, units: 3, return_sequences: true}}}",
                "{name: b, cell: lstm, units: 4, return_sequences: true}",
                "{name: out, dense: {units: 2, activation: tanh}}"], x)
    tokens = numpy.array([[1, 2, 0, 3, 0], [0, 0, 4, 5, 6], [0, 0, 0, 0, 0], [6, 5, 4, 3, 2]],
                         numpy.int32)
    model_case("mask_zero",
               [layers.Embedding(7, 3, mask_zero=True, name="emb"),
                layers.LSTM(4, return_sequences=True, name="a"), layers.GRU(4, name="b")], None,
               tokens, spec="input: {tokens: 7, batch: any, timesteps: any}\nlayers:\n"
               "  - {name: emb, embedding: {units: 3, mask_zero: true}}\n"
               "  - {name: a, cell: lstm, units: 4, return_sequences: true}\n"
               "  - {name: b, cell: gru, units: 4}")
    model_case("stateful",
               [layers.LSTM(4, return_sequences=True, stateful=True, name="a"),
                layers.GRU(3, return_sequences=True, stateful=True, name="b")],
               ["{name: a, cell: lstm, units: 4, return_sequences: true, stateful: true}",
                "{name: b, cell: gru, units: 3, return_sequences: true, stateful: true}"],
               random("stateful", B, 6, I), run="--chunk 2", calls=3, batch=B)


if __name__ == "__main__":
    clear("keras")
    cells()
    masks()
    bidirectional()
    models()
