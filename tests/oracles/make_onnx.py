"""Writes tests/oracles/onnx: what ONNX Runtime gives for the nodes LSTM, GRU and RNN on the CPU.

    pip install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 safetensors && python make_onnx.py

Left out: `clip` of LSTM, where ONNX Runtime does not bound the cell state before the output
activation; rows of length 0, whose final state is 0 there and the initial one here; layout 1,
which ONNX Runtime refuses.
"""

import numpy
import onnxruntime
from fixture import clear, random, write_case
from onnx import TensorProto, helper

B, T, I, H = 4, 5, 3, 4
LENGTHS = [3, 5, 2, 1]
HEADER = f"ONNX Runtime {onnxruntime.__version__}, CPU"
SPECS = {"lstm": ("LSTM", 4, "cell: lstm"), "peephole": ("LSTM", 4, "cell: peephole_lstm"),
         "gru": ("GRU", 3, "cell: gru"), "gru_before": ("GRU", 3, "cell: gru_before"),
         "rnn": ("RNN", 1, "cell: rnn")}


def run_node(kind, attributes, inputs, outputs):
    """`inputs`: name to array, or None for one that is left out."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    node = helper.make_node(kind, names, outputs, hidden_size=H, **attributes)
    typed = [helper.make_tensor_value_info(
        name, TensorProto.INT32 if value.dtype == numpy.int32 else TensorProto.FLOAT, value.shape)
        for name, value in inputs.items() if value is not None]
    graph = helper.make_graph([node], "oracle", typed, [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(None, {name: value for name, value in inputs.items() if value is not None})


def case(name, cell, direction="forward", lengths=None, initial=False, bias=True, words="",
         **attributes):
    kind, gates, keys = SPECS[cell]
    sides = {"forward": [""], "reverse": [""], "bidirectional": ["/fw", "/bw"]}[direction]
    D = len(sides)
    states = "hc" if kind == "LSTM" else "h"
    weights = {"W": random(name + "W", D, gates * H, I), "R": random(name + "R", D, gates * H, H)}
    if bias:
        weights["B"] = random(name + "B", D, 2 * gates * H)
    if cell == "peephole":
        weights["P"] = random(name + "P", D, 3 * H)
    if cell == "gru":
        attributes["linear_before_reset"] = 1
    x = random(name + "x", T, B, I)
    start = {state: random(name + state, D, B, H) if initial else None for state in states}
    inputs = {"X": x, "W": weights["W"], "R": weights["R"], "B": weights.get("B"),
              "lens": numpy.array(lengths, numpy.int32) if lengths else None,
              "h": start["h"]}
    if kind == "LSTM":
        inputs.update({"c": start["c"], "P": weights.get("P")})
    while inputs[list(inputs)[-1]] is None:
        inputs.popitem()
    result = run_node(kind, dict(attributes, direction=direction), inputs,
                      ["Y"] + [f"Y_{state}" for state in states])
    arrays = {"in/x": x, "out/y": result[0].transpose(0, 2, 1, 3).reshape(T, B, D * H)}
    if lengths:
        arrays["lengths"] = inputs["lens"]
    for state, final in zip(states, result[1:]):
        for i, side in enumerate(sides):
            arrays[f"out/enc{side}/{state}"] = final[i]
            if initial:
                arrays[f"state/enc{side}/{state}"] = start[state][i]
    layer = (f"{keys}, units: {H}, return_sequences: true, return_state: true, "
             f"use_bias: {str(bias).lower()}{words}")
    if direction == "reverse":
        layer += ", direction: reverse"
    line = (f"{{name: enc, bidirectional: {{layer: {{{layer}}}}}}}" if D == 2
            else f"{{name: enc, {layer}}}")
    write_case("onnx", name, f"input: {{features: {I}, batch: any, timesteps: any, "
               f"layout: time_major}}\nlayers:\n  - {line}",
               {f"enc/{key}": value for key, value in weights.items()}, arrays, header=HEADER)


if __name__ == "__main__":
    clear("onnx")
    for cell_name in SPECS:
        case(cell_name, cell_name, initial=True)
        for way in ("forward", "reverse", "bidirectional"):
            case(f"{cell_name}_{way}_lengths", cell_name, way, LENGTHS, initial=True)
        case(f"{cell_name}_bidirectional", cell_name, "bidirectional", bias=False)
    case("lstm_input_forget", "lstm", "reverse", initial=True, input_forget=1,
         words=", input_forget: true")
    case("lstm_activations", "lstm", activations=["HardSigmoid", "Softsign", "LeakyRelu"],
         activation_alpha=[0.2, 0.05], activation_beta=[0.5],
         words=", recurrent_activation: hard_sigmoid_k2, activation: softsign, "
         "output_activation: {leaky_relu: 0.05}")
    case("gru_clip", "gru", clip=0.4, words=", clip: 0.4")
    case("gru_before_clip", "gru_before", clip=0.4, words=", clip: 0.4")
    case("rnn_clip", "rnn", "bidirectional", clip=0.3, words=", clip: 0.3")
    case("lstm_relu", "lstm", activations=["Sigmoid", "Relu", "Tanh"],
         words=", activation: relu, output_activation: tanh")
    for function, alpha, word in [("Elu", 0.7, "{elu: 0.7}"), ("Softplus", None, "softplus"),
                                  ("ThresholdedRelu", 0.2, "{thresholded_relu: 0.2}"),
                                  ("LeakyRelu", 0.05, "{leaky_relu: 0.05}"),
                                  ("Softsign", None, "softsign")]:
        case(f"rnn_{function.lower()}", "rnn", activations=[function],
             words=f", activation: {word}", **({"activation_alpha": [alpha]} if alpha else {}))
