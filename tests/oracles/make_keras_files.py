"""Writes tests/oracles/keras_files: models saved by Keras 3 itself, and what it computes with them.

    pip install keras==3.15.1 numpy==2.4.6 h5py==3.16.0 jax scipy safetensors \
        && python make_keras_files.py

Each case is a folder with model.keras or model.h5 and arrays.npz. What varies between two runs
(dates, object ids) is set to 0. `deflate: false` leaves an archive as Keras wrote it: stored.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "numpy")
import keras  # noqa: E402
import numpy  # noqa: E402
from keras import layers  # noqa: E402
from keras.ops import convert_to_numpy as convert  # noqa: E402
from fixture import HERE, arrays_to, clear, random  # noqa: E402
from make_keras_archive import settle  # noqa: E402

B, T, I, H = 3, 5, 3, 4
FRAMEWORK = "keras_files"


# Where more than check.py's tolerance is right.
TOLERANCES = {
    "activations_1": "3e-6: y goes up to 13.5, and sums of that size cancel",
    "activations_4": "3e-6: of exponential; Keras is 1.2e-6 off what float64 gives",
}


def save(name, model, x, ending="keras", deflate=True, calls=1, names=None):
    """Draws the weights, saves the model and keeps what it gives. `calls`: x comes in so many;
    `names` of a model's outputs, where it has several."""
    folder = HERE / FRAMEWORK / name
    folder.mkdir(parents=True)
    if name in TOLERANCES:
        (folder / "tolerance").write_text(TOLERANCES[name] + "\n")
    for index, variable in enumerate(model.weights):
        if "state" not in variable.path.rsplit("/", 1)[-1] and variable.trainable:
            variable.assign(random(f"{name}/{index}", *variable.shape) * 1.5)
    path = folder / f"model.{ending}"
    if ending == "weights.h5":
        model.save_weights(path)
    else:
        model.save(path)
    if ending == "keras":
        settle(path, deflate)
    if names:
        outputs = dict(zip(names, [convert(value) for value in model(x)]))
    else:
        y = [convert(model(part)) for part in numpy.split(x, calls, 1)]
        outputs = {"y": numpy.concatenate(y, 1) if y[0].ndim == 3 else y[-1]}
    run = [] if calls == 1 else ["--chunk", str(x.shape[1] // calls)]
    arrays_to(folder, {"in/x": x, **{f"out/{key}": value.astype(numpy.float32)
                                       for key, value in outputs.items()}}, run)
    keras.backend.clear_session()  # names begin anew


def sequential(*parts, shape=(None, I), batch=None, **options):
    return keras.Sequential([keras.Input(shape, batch_size=batch, **options), *parts])


def features(name, batch=B):
    return random(name + "x", batch, T, I)


def cells():
    kinds = {"lstm": (layers.LSTM, {}), "gru": (layers.GRU, {}),
             "gru_before": (layers.GRU, {"reset_after": False}),
             "rnn": (layers.SimpleRNN, {"activation": "relu"})}
    for cell, (kind, options) in kinds.items():
        for suffix, more in [("", {}), ("_no_bias", {"use_bias": False, "return_sequences": True}),
                             ("_backwards", {"go_backwards": True, "return_sequences": True})]:
            name = cell + suffix
            save(name, sequential(kind(H, **options, **more)), features(name))
    save("lstm_activations",
         sequential(layers.LSTM(H, activation="softsign", recurrent_activation="hard_sigmoid")),
         features("lstm_activations"))
    save("gru_activations",
         sequential(layers.GRU(H, activation=layers.LeakyReLU(negative_slope=0.1),
                               recurrent_activation="hard_sigmoid", return_sequences=True)),
         features("gru_activations"))
    save("rates", sequential(layers.LSTM(H, dropout=0.25, recurrent_dropout=0.125),
                             layers.Dropout(0.5), layers.GaussianNoise(0.1)), features("rates"))
    save("sizes", sequential(layers.SimpleRNN(H, unroll=True), shape=(T, I), batch=B),
         features("sizes"), deflate=False)
    save("cell_in_rnn", sequential(layers.RNN(layers.LSTMCell(H), return_sequences=True),
                                   layers.RNN(layers.GRUCell(3, reset_after=False))),
         features("cell_in_rnn"))
    save("stateful", sequential(layers.LSTM(H, stateful=True, return_sequences=True),
                                layers.GRU(3, stateful=True, return_sequences=True), batch=B),
         random("statefulx", B, 6, I), calls=3)
    half = sequential(layers.LSTM(H, dtype="float64"), layers.Dense(2, dtype="float64"))
    save("double", half, features("double"))


def bidirectional():
    for merge in ("concat", "sum", "mul", "ave"):
        save(f"bidirectional_{merge}",
             sequential(layers.Bidirectional(layers.LSTM(H, return_sequences=merge != "sum"),
                                             merge_mode=merge), layers.Dense(2)),
             features(merge))
    save("bidirectional_other",
         sequential(layers.Bidirectional(
             layers.LSTM(H, return_sequences=True, use_bias=False),
             backward_layer=layers.GRU(3, return_sequences=True, go_backwards=True))),
         features("other"))
    save("bidirectional_stateful",
         sequential(layers.Bidirectional(layers.GRU(3, stateful=True)), batch=B),
         features("bidirectional_stateful"))


def activations():
    groups = [["relu", "tanh", "sigmoid", "hard_sigmoid", "softplus"],
              ["elu", "selu", "celu", "gelu", "silu"], ["leaky_relu", "mish", "softsign", "relu6"],
              ["hard_silu", "hard_tanh", "log_sigmoid", "tanh_shrink"],
              ["soft_shrink", "exponential"],
              ["hard_shrink", "squareplus"], ["sparse_plus", "sparse_sigmoid"]]
    for index, group in enumerate(groups):
        name = f"activations_{index}"
        save(name, sequential(layers.SimpleRNN(8, return_sequences=True),
                              *[layers.Dense(8, activation=one) for one in group]), features(name))
    save("activation_layers",
         sequential(layers.LSTM(8), layers.Dense(8), layers.LeakyReLU(0.3), layers.Dense(8),
                    layers.ELU(0.5), layers.Dense(8), layers.ReLU(), layers.Dense(8),
                    layers.ReLU(max_value=0.5, negative_slope=0.1, threshold=0.2),
                    layers.Dense(8), layers.ReLU(6.0), layers.Activation("tanh")),
         features("activation_layers"))


def models():
    x = features("stack")
    x[0, 0] = x[0, 3] = x[1, 4] = x[2, 1] = 0.5
    parts = [layers.Masking(0.5), layers.LSTM(H, return_sequences=True),
             layers.Bidirectional(layers.GRU(3, return_sequences=True)),
             layers.TimeDistributed(layers.Dense(5, activation="relu", use_bias=False)),
             layers.TimeDistributed(layers.Dropout(0.5)),
             layers.LSTM(2, zero_output_for_mask=True, return_sequences=True), layers.LSTM(2),
             layers.Dense(3)]
    model = sequential(*parts)
    save("stack", model, x)
    save("stack_h5", model, x, "h5")
    tokens = numpy.array([[1, 2, 0, 3, 0], [0, 0, 4, 5, 6], [6, 5, 4, 3, 2]], numpy.int32)
    for ending in ("keras", "h5"):
        value = inputs = keras.Input((None,), dtype="int32")
        for layer in [layers.Embedding(7, 3, mask_zero=True), layers.LSTM(H, return_sequences=True),
                      layers.Bidirectional(layers.GRU(2, return_sequences=True)), layers.GRU(3),
                      layers.Dense(2, activation="sigmoid")]:
            value = layer(value)
        save(f"functional_{ending}", keras.Model(inputs, value), tokens, ending)
    value = inputs = keras.Input((None, I))
    for layer in [layers.Masking(0.5), layers.SimpleRNN(H, return_sequences=True), layers.GRU(2)]:
        value = layer(value)
    save("functional_masking", keras.Model(inputs, value), x)
    save("many_layers", sequential(*[layers.SimpleRNN(2, return_sequences=True)
                                     for _ in range(12)]), features("many"))


def outputs():
    """Models with several outputs of one layer."""
    inputs = keras.Input((None, I))
    both = layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode=None)(inputs)
    save("bidirectional_none", keras.Model(inputs, both), features("none"), names=["y/fw", "y/bw"])
    inputs = keras.Input((None, I))
    all_of = layers.LSTM(H, return_state=True, name="enc")(layers.Dense(2)(inputs))
    save("return_state", keras.Model(inputs, all_of), features("return_state"),
         names=["y", "enc/h", "enc/c"])
    inputs = keras.Input((None, I))
    first, _ = layers.GRU(H, return_state=True, return_sequences=True)(inputs)
    save("return_state_unused", keras.Model(inputs, layers.Dense(2)(first)), features("unused"))


def weights():
    save("weights", sequential(layers.LSTM(H, return_sequences=True), layers.Dropout(0.5),
                               layers.Bidirectional(layers.GRU(3, return_sequences=True)),
                               layers.LSTM(5, use_bias=False), layers.Dense(2)),
         features("weights"), "weights.h5")
    tokens = numpy.array([[1, 2, 0, 3, 0], [0, 0, 4, 5, 6]], numpy.int32)
    save("weights_tokens",
         sequential(layers.Embedding(7, 3), layers.GRU(H, reset_after=False, return_sequences=True),
                    layers.TimeDistributed(layers.Dense(2)), shape=(None,), dtype="int32"),
         tokens, "weights.h5")


if __name__ == "__main__":
    clear(FRAMEWORK)
    cells()
    bidirectional()
    activations()
    models()
    outputs()
    weights()
