"""Adds to tests/oracles/keras_files: models saved by Keras 2 itself, and what it computes.

    pip install tensorflow-cpu==2.21.0 tf_keras==2.21.0 safetensors && python make_keras2_files.py

Run it after make_keras_files.py, which clears the folder. The layers CuDNNLSTM and CuDNNGRU run on
a GPU only: what they give is what Keras gives that loads their weights into LSTM and GRU.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy  # noqa: E402
import tensorflow.compat.v1 as tensorflow_1  # noqa: E402
import tf_keras as keras  # noqa: E402
from fixture import HERE, arrays_to, random  # noqa: E402
from make_keras_archive import settle  # noqa: E402

B, T, I, H = 3, 5, 3, 4
layers = keras.layers


def fill(model, name):
    model.set_weights([random(f"{name}/{index}", *value.shape) * 1.5
                       for index, value in enumerate(model.get_weights())])


def save(name, model, x, ending="h5", calls=1, reference=None, weights=False):
    """`reference`: another model that loads the weights of the file and computes."""
    folder = HERE / "keras_files" / name
    folder.mkdir(parents=True)
    fill(model, name)
    path = folder / f"model.{ending}"
    (model.save_weights if weights else model.save)(path)
    if ending == "keras":
        settle(path, True)
    if reference:
        reference.load_weights(path)
    y = [(reference or model)(part).numpy() for part in numpy.split(x, calls, 1)]
    y = numpy.concatenate(y, 1) if y[0].ndim == 3 else y[-1]
    run = [] if calls == 1 else ["--chunk", str(x.shape[1] // calls)]
    arrays_to(folder, {"in/x": x, "out/y": y.astype(numpy.float32)}, run)
    keras.backend.clear_session()


def sequential(*parts, shape=(None, I), batch=None):
    return keras.Sequential([keras.Input(shape, batch_size=batch), *parts])


def features(name):
    return random(name + "x", B, T, I)


def cells():
    for ending in ("h5", "keras"):
        name = f"k2_lstm_{ending}"
        save(name, sequential(layers.LSTM(H, recurrent_activation="hard_sigmoid"),
                              layers.Dense(2, activation="hard_sigmoid")), features(name), ending)
        name = f"k2_gru_{ending}"
        save(name, sequential(layers.GRU(H, return_sequences=True, go_backwards=True),
                              layers.GRU(3, reset_after=False, use_bias=False)),
             features(name), ending)
    save("k2_old_shape", keras.Sequential([layers.SimpleRNN(H, batch_input_shape=(B, T, I),
                                                            activation="relu", unroll=True)]),
         features("k2_old_shape"))
    save("k2_stateful", sequential(layers.GRU(H, stateful=True, return_sequences=True), batch=B),
         random("k2_statefulx", B, 6, I), calls=2)
    save("k2_activation_layers",
         sequential(layers.LSTM(8, activation="elu", dropout=0.5), layers.Dense(8),
                    layers.LeakyReLU(), layers.Dense(8), layers.LeakyReLU(alpha=0.1),
                    layers.Dense(8), layers.ThresholdedReLU(theta=0.25), layers.Dense(8),
                    layers.ReLU(max_value=0.5, negative_slope=0.1, threshold=0.2),
                    layers.Dense(8, activation="swish"), layers.Activation("gelu")),
         features("k2_activation_layers"))


def models():
    x = features("k2_stack")
    x[0, 0] = x[0, 3] = x[1, 4] = x[2, 1] = 0.5
    for ending in ("h5", "keras"):
        save(f"k2_stack_{ending}",
             sequential(layers.Masking(0.5),
                        layers.Bidirectional(layers.LSTM(H, return_sequences=True)),
                        layers.Bidirectional(
                            layers.LSTM(3, return_sequences=True), merge_mode="mul",
                            backward_layer=layers.GRU(3, return_sequences=True, use_bias=False,
                                                      go_backwards=True)),
                        layers.TimeDistributed(layers.Dense(5, activation="relu")),
                        layers.LSTM(2)), x, ending)
        tokens = numpy.array([[1, 2, 0, 3, 0], [0, 0, 4, 5, 6], [6, 5, 4, 3, 2]], numpy.int32)
        value = inputs = keras.Input((None,), dtype="int32")
        for layer in [layers.Embedding(7, 3, mask_zero=True), layers.Dropout(0.2),
                      layers.LSTM(H, return_sequences=True), layers.GRU(3), layers.Dense(2)]:
            value = layer(value)
        save(f"k2_functional_{ending}", keras.Model(inputs, value), tokens, ending)


def weights():
    save("k2_weights",
         sequential(layers.GRU(H, return_sequences=True), layers.Dropout(0.5),
                    layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
                    layers.GRU(3, reset_after=False), layers.Dense(2)),
         features("k2_weights"), weights=True)


def cudnn():
    cudnn_lstm = tensorflow_1.keras.layers.CuDNNLSTM
    cudnn_gru = tensorflow_1.keras.layers.CuDNNGRU
    for wrap, name in [(lambda layer: layer, "k2_cudnn"),
                       (layers.Bidirectional, "k2_cudnn_bidirectional")]:
        first, second = cudnn_lstm(H, return_sequences=True), cudnn_gru(2, go_backwards=True)
        if wrap is layers.Bidirectional:
            second = cudnn_gru(2)
        same = sequential(wrap(layers.LSTM(H, return_sequences=True)),
                          wrap(layers.GRU(2, go_backwards=second.go_backwards)))
        save(name, sequential(wrap(first), wrap(second)), features(name), reference=same)


if __name__ == "__main__":
    cells()
    models()
    weights()
    cudnn()
