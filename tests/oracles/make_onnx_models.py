"""Writes tests/oracles/onnx_models: ONNX models with what ONNX Runtime gives for them on the CPU.

    pip install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 safetensors
    python make_onnx_models.py

Each folder has model.onnx and test_data_set_0/, as ONNX' own tests have, or refused.txt: words of
the refusal. Where ONNX Runtime is not right (clip of LSTM) or refuses (layout 1) the values come
from the equations and from layout 0. The six tests with constant weights have their right values
from the equations beside them.
"""

import pathlib
import shutil

import numpy
import onnxruntime
from fixture import HERE, random
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

ROOT = HERE / "onnx_models"
FLOAT, INT32, INT64, BOOL = (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64,
                             TensorProto.BOOL)
STATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
node = helper.make_node


def ints(*values):
    return numpy.array(values, numpy.int64)


def scalar(value):
    return numpy.array(value, numpy.int64)


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(shape, number):
    return numpy.full(shape, number, numpy.float32)


def model_of(nodes, inputs, outputs, weights, opset=17, change=None):
    graph = helper.make_graph(
        nodes, "model", [value(*item) for item in inputs],
        [item if not isinstance(item, str) else value(item) for item in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=8, producer_name="make_onnx_models.py")
    if change:
        change(model)
    return model


def folder_of(name):
    folder = ROOT / name
    folder.mkdir(parents=True)
    return folder


def save(folder, kind, index, array, name):
    data = folder / "test_data_set_0"
    data.mkdir(exist_ok=True)
    tensor = numpy_helper.from_array(array, name)
    (data / f"{kind}_{index}.pb").write_bytes(tensor.SerializeToString())


def case(name, model, feeds, expected=None):
    """`feeds`: arrays in the order of the inputs; `expected`: right values, by output."""
    folder = folder_of(name)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    names = [item.name for item in model.graph.input]
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"),
                                           providers=["CPUExecutionProvider"])
    results = session.run(None, dict(zip(names, feeds)))
    for i, (key, array) in enumerate(zip(names, feeds)):
        save(folder, "input", i, array, key)
    for i, (item, array) in enumerate(zip(model.graph.output, results)):
        save(folder, "output", i, array, item.name)
        if expected:
            numpy.testing.assert_allclose(array, expected[i], atol=1e-6, rtol=1e-5)


def refuse(name, words, model):
    folder = folder_of(name)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "refused.txt").write_text(words + "\n")


def recurrent(kind, prefix, I, H, directions=1, bias=True, peepholes=False):
    """Weights of one node, by the names of its inputs."""
    gates = STATES[kind]
    weights = {prefix + "W": random(prefix + "W", directions, gates * H, I),
               prefix + "R": random(prefix + "R", directions, gates * H, H)}
    if bias:
        weights[prefix + "B"] = random(prefix + "B", directions, 2 * gates * H)
    if peepholes:
        weights[prefix + "P"] = random(prefix + "P", directions, 3 * H)
    return weights


def constant_weights():
    """The six node tests of constant weights: Y and states from the equations (probes)."""
    x = numpy.arange(1, 7, dtype=numpy.float32).reshape(3, 1, 2)
    rows = [("lstm_reverse", "LSTM", 3, [.1], [".40412500", ".79702330"]),
            ("lstm_bidirectional", "LSTM", 3, [.5, 2.],
             [".99022438 .99504694", "2.71291308 2.99997711"]),
            ("gru_reverse", "GRU", 5, [.1], [".35567553"]),
            ("gru_bidirectional", "GRU", 5, [.5, 2.], [".18358349 .00247340"]),
            ("simple_rnn_reverse", "RNN", 4, [.1], [".54270299"]),
            ("simple_rnn_bidirectional", "RNN", 4, [.5, 2.], [".99999939 1.0"])]
    sequences = {"gru_reverse": [[.35567553], [.33831973], [.19991654]],
                 "gru_bidirectional": [[.16512214, .00247340], [.18146385, 8.3e-7],
                                       [.18358349, 0]]}
    for name, kind, H, numbers, finals in rows:
        D, G = len(numbers), STATES[kind]
        weights = {"W": numpy.concatenate([constant((1, G * H, 2), w) for w in numbers]),
                   "R": numpy.concatenate([constant((1, G * H, H), w) for w in numbers])}
        states = ["Y_h", "Y_c"][:len(finals)]
        outputs = (["Y"] if name in sequences else []) + states
        layer = node(kind, ["X", "W", "R"], ["Y"] + states, hidden_size=H,
                     direction="bidirectional" if D == 2 else "reverse")
        expected = [numpy.array(list(map(float, text.split()))).reshape(D, 1, 1)
                    * numpy.ones((D, 1, H)) for text in finals]
        if name in sequences:
            expected.insert(0, numpy.array(sequences[name]).reshape(3, D, 1, 1)
                            * numpy.ones((3, D, 1, H)))
        case("test_" + name, model_of([layer], [("X", FLOAT, [3, 1, 2])], outputs, weights, 14),
             [x], expected)


def single_nodes():
    """Every input and attribute of the three operators, at several opsets."""
    B, T, I, H = 3, 4, 2, 3
    x = random("x", T, B, I)
    X = ("X", FLOAT, ["time", "batch", I])
    lengths = numpy.array([2, 4, 1], numpy.int32)
    for kind in STATES:
        for direction in ("forward", "reverse", "bidirectional"):
            D = 2 if direction == "bidirectional" else 1
            states = ["h", "c"] if kind == "LSTM" else ["h"]
            weights = recurrent(kind, "", I, H, D, peepholes=kind == "LSTM")
            inputs = [X, ("lens", INT32, ["batch"])] + [
                (state, FLOAT, [D, "batch", H]) for state in states]
            layer = node(kind, ["X", "W", "R", "B", "lens"] + states + (
                ["P"] if kind == "LSTM" else []), ["Y"] + ["Y_" + state for state in states],
                hidden_size=H, direction=direction)
            case(f"{kind.lower()}_{direction}",
                 model_of([layer], inputs, ["Y"] + ["Y_" + state for state in states], weights,
                          {"RNN": 7, "GRU": 14, "LSTM": 22}[kind]),
                 [x, lengths] + [random(state, D, B, H) for state in states])
    plain = recurrent("LSTM", "", I, H, 2)
    layer = node("LSTM", ["X", "W", "R", "B"], ["Y"], hidden_size=H, direction="bidirectional",
                 activations=["HardSigmoid", "LeakyRelu", "Softsign",
                              "Sigmoid", "ScaledTanh", "Elu"],
                 activation_alpha=[.3, .05, .5, .7], activation_beta=[.4, 1.5])
    case("lstm_activations", model_of([layer], [X], ["Y"], plain), [x])
    case("lstm_input_forget", model_of([node("LSTM", ["X", "W", "R", "B"], ["Y"], hidden_size=H,
                                             direction="bidirectional", input_forget=1)],
                                       [X], ["Y"], plain), [x])
    gru = recurrent("GRU", "", I, H)
    case("gru_linear_before_reset",
         model_of([node("GRU", ["X", "W", "R", "B"], ["Y", "Y_h"], hidden_size=H,
                        linear_before_reset=1, clip=.4)], [X], ["Y", "Y_h"], gru), [x])
    case("gru_last_step", model_of([node("GRU", ["X", "W", "R"], ["", "Y_h"], hidden_size=H)],
                                   [X], ["Y_h"], gru), [x])
    case("rnn_affine", model_of([node("RNN", ["X", "W", "R", "B"], ["Y"], hidden_size=H,
                                      activations=["Affine"], activation_alpha=[.5],
                                      activation_beta=[.1])], [X], ["Y"],
                                recurrent("RNN", "", I, H)), [x])


def written(name, model, feeds, results):
    """A case whose right values ONNX Runtime does not give."""
    folder = folder_of(name)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, arrays, items in (("input", feeds, model.graph.input),
                                ("output", results, model.graph.output)):
        for i, (array, item) in enumerate(zip(arrays, items)):
            save(folder, kind, i, numpy.ascontiguousarray(array, numpy.float32), item.name)


def batch_first():
    """layout 1 is what ONNX Runtime gives for layout 0, with the axes moved."""
    B, T, I, H = 3, 4, 2, 3
    weights = recurrent("LSTM", "", I, H, 2)
    inputs, outputs = ["X", "W", "R", "B", "", "h", "c"], ["Y", "Y_h", "Y_c"]
    x, h, c = random("x", T, B, I), random("h", 2, B, H), random("c", 2, B, H)
    model = model_of([node("LSTM", inputs, outputs, hidden_size=H, direction="bidirectional")],
                     [("X", FLOAT, [T, B, I]), ("h", FLOAT, [2, B, H]), ("c", FLOAT, [2, B, H])],
                     outputs, weights)
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    Y, Y_h, Y_c = session.run(None, {"X": x, "h": h, "c": c})
    swap = (1, 0, 2)
    written("lstm_layout",
            model_of([node("LSTM", inputs, outputs, hidden_size=H, direction="bidirectional",
                           layout=1)],
                     [("X", FLOAT, [B, "time", I]), ("h", FLOAT, [B, 2, H]),
                      ("c", FLOAT, [B, 2, H])], outputs, weights),
            [x.transpose(swap), h.transpose(swap), c.transpose(swap)],
            [Y.transpose(2, 0, 1, 3), Y_h.transpose(swap), Y_c.transpose(swap)])


def clipped():
    """clip bounds every activation's argument, the cell state's too, which ONNX Runtime does not
    bound: W = 1, R = 0, x = 1 gives .17427 .271099 .287649 .287649 .287649 .287649."""
    state, rows, bound = 0.0, [], 0.5
    for _ in range(6):
        gate = 1 / (1 + numpy.exp(-bound))
        state = gate * state + gate * numpy.tanh(bound)
        rows.append(gate * numpy.tanh(min(state, bound)))
    numpy.testing.assert_allclose(rows, [.17427, .271099] + 4 * [.287649], atol=1e-5)
    written("lstm_clip",
            model_of([node("LSTM", ["X", "W", "R"], ["Y"], hidden_size=1, clip=bound)],
                     [("X", FLOAT, [6, 1, 1])], ["Y"],
                     {"W": constant((1, 4, 1), 1), "R": constant((1, 4, 1), 0)}),
            [constant((6, 1, 1), 1)], [numpy.array(rows).reshape(6, 1, 1, 1)])


def lengths_through_layers():
    """Two layers of one sequence_lens, and what a dense layer makes of the padding."""
    B, T, I, H = 3, 4, 2, 3
    weights = {**recurrent("GRU", "a", I, H, 2), **recurrent("LSTM", "b", 2 * H, H)}
    nodes = [node("Cast", ["lengths"], ["lens"], to=INT32),
             node("GRU", ["X", "aW", "aR", "aB", "lens"], ["Ya"], hidden_size=H,
                  direction="bidirectional"),
             node("Transpose", ["Ya"], ["Yt"], perm=[0, 2, 1, 3]),
             node("Reshape", ["Yt", "shape"], ["Yr"]),
             node("LSTM", ["Yr", "bW", "bR", "bB", "lens"], ["Yb", "h", "c"], hidden_size=H,
                  direction="reverse"),
             node("Squeeze", ["Yb", "one"], ["Ys"]), node("MatMul", ["Ys", "D"], ["m"]),
             node("Add", ["m", "d"], ["y"])]
    inputs = [("X", FLOAT, ["time", "batch", I]), ("lengths", INT64, ["batch"])]
    case("lengths_through_layers",
         model_of(nodes, inputs, ["y", "h", "c"],
                  {"shape": ints(0, 0, -1), "one": ints(1), "D": random("D", H, 2),
                   "d": random("d", 2), **weights}), [random("x", T, B, I), ints(2, 4, 1)])
    nodes[4] = node("LSTM", ["Yr", "bW", "bR", "bB"], ["Yb"], hidden_size=H)
    refuse("refused_lengths_of_one_layer", "only one has sequence_lens",
           model_of(nodes[:5], inputs, ["Yb"], {"shape": ints(0, 0, -1), **weights}))
    refuse("refused_constant_lengths", "input sequence_lens is constant",
           model_of([node("GRU", ["X", "aW", "aR", "aB", "lens"], ["Y"], hidden_size=H,
                          direction="bidirectional")], [("X", FLOAT, [T, B, I])], ["Y"],
                    {"lens": numpy.array([2, 4, 1], numpy.int32), **weights}))


def storage():
    """Weights as typed fields, as halves, and outside the file."""
    B, T, I, H = 2, 3, 2, 3
    X = ("X", FLOAT, [T, B, I])
    weights = recurrent("GRU", "", I, H)
    layer = node("GRU", ["X", "W", "R", "B"], ["Y"], hidden_size=H)

    def typed(model):
        for tensor in model.graph.initializer:
            tensor.float_data.extend(numpy_helper.to_array(tensor).flatten())
            tensor.ClearField("raw_data")

    case("typed_fields", model_of([layer], [X], ["Y"], weights, change=typed),
         [random("x", T, B, I)])
    model = model_of([layer], [X], ["Y"], weights)
    folder = folder_of("external")
    at = 0
    with open(folder / "weights.bin", "wb") as data:
        for tensor in model.graph.initializer:
            size = data.write(tensor.raw_data)
            set_external_data(tensor, "weights.bin", at, size)
            tensor.ClearField("raw_data")
            at += size
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, index, name in (("input", 0, "X"), ("output", 0, "Y")):
        source = ROOT / "typed_fields" / "test_data_set_0" / f"{kind}_{index}.pb"
        save(folder, kind, index, numpy_helper.to_array(
            TensorProto.FromString(source.read_bytes())), name)

    def elsewhere(model):
        set_external_data(model.graph.initializer[0], "../external/weights.bin", 0, 72)
        model.graph.initializer[0].ClearField("raw_data")

    refuse("external_elsewhere", "tensor 'W': its data is in '../external/weights.bin', which is "
           "not inside the model's folder", model_of([layer], [X], ["Y"], weights,
                                                     change=elsewhere))


def chains():
    """What exporters put around recurrent nodes."""
    B, T, I, H = 3, 4, 2, 3
    x = random("x", B, T, I)
    X = ("X", FLOAT, ["batch", "time", I])
    tokens = numpy.array([[0, 4, 2, 1], [3, 3, 0, 2], [1, 0, 4, 4]], numpy.int64)
    two = {**recurrent("LSTM", "a", 6, H, 2), **recurrent("GRU", "b", 2 * H, H)}
    nodes = [node("Gather", ["E", "X"], ["e"]),
             node("Transpose", ["e"], ["t"], perm=[1, 0, 2]),
             node("LSTM", ["t", "aW", "aR", "aB"], ["Ya"], hidden_size=H,
                  direction="bidirectional"),
             node("Transpose", ["Ya"], ["Yt"], perm=[0, 2, 1, 3]),
             node("Reshape", ["Yt", "shape"], ["Yr"]),
             node("Dropout", ["Yr", "ratio"], ["Yd"]),
             node("GRU", ["Yd", "bW", "bR", "bB"], ["Yb"], hidden_size=H),
             node("Squeeze", ["Yb", "one"], ["Ys"]),
             node("Transpose", ["Ys"], ["Yf"], perm=[1, 0, 2]),
             node("MatMul", ["Yf", "D"], ["m"]), node("Add", ["d", "m"], ["n"]),
             node("Relu", ["n"], ["y"])]
    case("embedding_bidirectional_gru_dense",
         model_of(nodes, [("X", INT64, ["batch", "time"])], ["y"],
                  {"E": random("E", 5, 6), "shape": ints(0, 0, -1), "one": ints(1),
                   "ratio": numpy.array(.25, numpy.float32), "D": random("D", H, 5),
                   "d": random("d", 5), **two}), [tokens])

    one = recurrent("LSTM", "", I, H)
    into = [node("Transpose", ["X"], ["t"], perm=[1, 0, 2]),
            node("LSTM", ["t", "W", "R", "B"], ["Y", "Yh", "Yc"], hidden_size=H)]
    dense = {"D": random("D", 5, H), "d": random("d", 5)}
    gemm = node("Gemm", ["last", "D", "d"], ["y"], transB=1, alpha=2., beta=.5)
    case("last_step_by_gather", model_of(
        into + [node("Squeeze", ["Y", "one"], ["s"]), node("Gather", ["s", "end"], ["last"]), gemm],
        [X], ["y"], {"one": ints(1), "end": scalar(-1), **one, **dense}), [x])
    case("last_step_by_slice", model_of(
        into + [node("Squeeze", ["Y", "one"], ["s"]),
                node("Slice", ["s", "end", "most", "zero"], ["l"]),
                node("Squeeze", ["l", "zero"], ["last"]), gemm],
        [X], ["y", "Yc"], {"one": ints(1), "zero": ints(0), "end": ints(-1),
                           "most": ints(2 ** 63 - 1), **one, **dense}), [x])
    case("last_state", model_of(
        into + [node("Squeeze", ["Yh", "zero"], ["last"]), gemm, node("Softsign", ["y"], ["z"])],
        [X], ["z", "Yh"], {"zero": ints(0), **one, **dense}), [x])

    both = recurrent("RNN", "", I, H, 2)
    into = [node("Transpose", ["X"], ["t"], perm=[1, 0, 2]),
            node("RNN", ["t", "W", "R", "B"], ["Y", "Yh"], hidden_size=H,
                 direction="bidirectional")]
    case("both_states_joined", model_of(
        into + [node("Gather", ["Yh", "i0"], ["f"]), node("Gather", ["Yh", "i1"], ["b"]),
                node("Concat", ["f", "b"], ["fb"], axis=-1),
                node("Gemm", ["fb", "D"], ["y"])],
        [X], ["y"], {"i0": scalar(-2), "i1": scalar(-1), "D": random("D", 2 * H, 5), **both}), [x])
    for op, name in (("Add", "sum"), ("Mul", "mul")):
        case(f"directions_{name}", model_of(
            into + [node("Split", ["Y"], ["f", "b"], axis=1), node(op, ["f", "b"], ["fb"]),
                    node("Squeeze", ["fb", "one"], ["y"])],
            [X], ["y"], {"one": ints(1), **both}), [x])
    case("directions_ave", model_of(
        into + [node("Split", ["Y"], ["f", "b"], axis=1), node("Add", ["f", "b"], ["fb"]),
                node("Mul", ["fb", "half"], ["m"]), node("Squeeze", ["m", "one"], ["y"])],
        [X], ["y"], {"one": ints(1), "half": numpy.array([.5], numpy.float32), **both}), [x])


def folding():
    """Weights put together by the graph, an If of a known condition, and states of zeros that
    depend on the batch."""
    B, T, I, H = 3, 4, 2, 3
    X = ("X", FLOAT, ["time", "batch", I])
    weights = recurrent("LSTM", "", I, H)
    parts = {f"W{gate}": weights["W"][0, i * H:(i + 1) * H].T.copy()
             for i, gate in enumerate("iofc")}
    nodes = [node("Transpose", ["W" + gate], ["T" + gate]) for gate in "iofc"]
    nodes += [node("Concat", ["T" + gate for gate in "iofc"], ["W2"], axis=0),
              node("Unsqueeze", ["W2", "zero"], ["W"]),
              node("Slice", ["R2", "from", "to", "axis"], ["R3"]),
              node("Reshape", ["R3", "shape"], ["R"]),
              node("Constant", [], ["half"], value=numpy_helper.from_array(weights["B"][:, :12])),
              node("Gather", ["B2", "rows"], ["B3"]), node("Cast", ["B3"], ["B4"], to=FLOAT),
              node("Concat", ["half", "B4"], ["B"], axis=-1),
              node("Shape", ["X"], ["s"]), node("Gather", ["s", "i1"], ["b"]),
              node("Unsqueeze", ["b", "zero"], ["b1"]),
              node("Concat", ["one", "b1", "three"], ["hs"], axis=0),
              node("ConstantOfShape", ["hs"], ["h0"]),
              node("Expand", ["zeros", "hs"], ["c0"]),
              node("LSTM", ["X", "W", "R", "B", "", "h0", "c0"], ["Y"], hidden_size=H),
              node("Shape", ["Y"], ["Ys"]), node("Gather", ["Ys", "i1"], ["D"]),
              node("Equal", ["D", "i1"], ["yes"]),
              node("If", ["yes"], ["y"],
                   then_branch=helper.make_graph(
                       [node("Squeeze", ["Y", "one"], ["then"])], "then", [], [value("then")]),
                   else_branch=helper.make_graph(
                       [node("Identity", ["Y"], ["else"])], "else", [], [value("else")]))]
    case("folded_weights", model_of(nodes, [X], ["y"], {
        **parts, "zero": ints(0), "one": ints(1), "three": ints(H), "i1": scalar(1),
        "R2": numpy.concatenate([random("more", 12, 1), weights["R"][0], random("less", 12, 2)], 1),
        "from": ints(1), "to": ints(-2), "axis": ints(1), "shape": ints(1, -1, H),
        "B2": numpy.concatenate([random("none", 2, 12), weights["B"][:, 12:]]).astype(
            numpy.float64),
        "rows": ints(2), "zeros": constant((1, 1, H), 0)}), [random("x", T, B, I)])


def branches():
    """`If` around weights: conditions that are constant, computed, in a branch, and of a branch
    that is not taken and could not be; one that depends on the data is refused."""
    B, T, I, H = 3, 4, 2, 3
    X = ("X", FLOAT, ["time", "batch", I])
    weights = recurrent("GRU", "", I, H)

    def branch(name, nodes, output, more=()):
        return helper.make_graph(nodes, name, [], [value(output)],
                                 [numpy_helper.from_array(array, key) for key, array in more])

    def either(condition, output, then, otherwise):
        return node("If", [condition], [output], name=output, then_branch=then,
                    else_branch=otherwise)
    other = random("other", 1, 3 * H, I)
    nodes = [
        node("Shape", ["W2"], ["s"]), node("Shape", ["s"], ["rank"]),
        node("Equal", ["rank", "two"], ["is_flat"]), node("Not", ["is_flat"], ["is_whole"]),
        either("is_flat", "W", branch("then", [node("Unsqueeze", ["W2", "zero"], ["Wt"])], "Wt"),
               branch("else", [node("Identity", ["W2"], ["We"])], "We")),
        either("is_whole", "R",
               branch("then_R", [node("Softmax", ["R2"], ["Rt"])], "Rt"),
               branch("else_R", [either(
                   "yes", "Re",
                   branch("inner", [node("Transpose", ["R2"], ["R3"], perm=[0, 2, 1])], "R3"),
                   branch("outer", [node("Identity", ["other"], ["R4"])], "R4"))], "Re")),
        either("yes", "B", branch("then_B", [node("Concat", ["B1", "B2"], ["Bt"], axis=1)], "Bt",
                                  [("B1", weights["B"][:, :9]), ("B2", weights["B"][:, 9:])]),
               branch("else_B", [node("Identity", ["other"], ["Be"])], "Be")),
        node("GRU", ["X", "W", "R", "B"], ["Y", "Y_h"], hidden_size=H)]
    case("branches_around_weights", model_of(nodes, [X], ["Y", "Y_h"], {
        "two": ints(2), "zero": ints(0), "yes": numpy.array(True), "W2": weights["W"][0],
        "R2": weights["R"].transpose(0, 2, 1).copy(), "other": other}), [random("x", T, B, I)])
    choice = [either("is_one", "W", branch("then", [node("Identity", ["W1"], ["Wt"])], "Wt"),
                     branch("else", [node("Identity", ["W2"], ["We"])], "We")),
              node("GRU", ["X", "W", "R"], ["Y"], hidden_size=H)]
    chosen = {"W1": weights["W"], "W2": other, "R": weights["R"]}
    refuse("refused_condition", "node 'W' (If): its condition",
           model_of(choice, [X, ("is_one", BOOL, [])], ["Y"], chosen))
    sized = [node("Shape", ["X"], ["s"]), node("Gather", ["s", "zero"], ["t"]),
             node("Equal", ["t", "one"], ["is_one"])]
    refuse("refused_condition_of_sizes",
           "(Equal): its result depends on a size that is known only when the model runs",
           model_of(sized + choice, [X], ["Y"], {"zero": scalar(0), "one": scalar(1), **chosen}))


def refusals():
    """What cannot be taken, by name."""
    B, T, I, H = 3, 4, 2, 3
    X = ("X", FLOAT, [T, B, I])
    weights = recurrent("RNN", "", I, H)
    both = recurrent("RNN", "", I, H, 2)
    layer = node("RNN", ["X", "W", "R", "B"], ["Y", "Yh"], name="enc", hidden_size=H)
    bidirectional = node("RNN", ["X", "W", "R", "B"], ["Y", "Yh"], name="enc", hidden_size=H,
                         direction="bidirectional")
    wrong = node("RNN", ["X", "W", "R", "B"], ["Y"], name="enc", hidden_size=H, momentum=1)
    refuse("refused_attribute", "node 'enc' (RNN): attribute 'momentum' is not known",
           model_of([wrong], [X], ["Y"], weights))
    refuse("refused_operator", "node 'head' (Softmax): the operator cannot be taken",
           model_of([layer, node("Softmax", ["Y"], ["y"], name="head")], [X], ["y"], weights))
    refuse("refused_activation", "unknown function 'Gelu'",
           model_of([node("RNN", ["X", "W", "R"], ["Y"], activations=["Gelu"])], [X], ["Y"],
                    weights))
    refuse("refused_branch", "the graph branches",
           model_of([layer, node("Relu", ["Y"], ["a"]), node("Tanh", ["Y"], ["b"])], [X],
                    ["a", "b"], weights))
    refuse("refused_output", "output 'Y' is neither the end of the model",
           model_of([layer, node("Relu", ["Y"], ["a"])], [X], ["a", "Y"], weights))
    refuse("refused_middle_step", "not the last one that it computes",
           model_of([layer, node("Gather", ["Y", "i"], ["y"])], [X], ["y"],
                    {"i": scalar(1), **weights}))
    refuse("refused_last_of_both", "one step of the bidirectional layer 'enc'",
           model_of([bidirectional, node("Gather", ["Y", "i"], ["y"])], [X], ["y"],
                    {"i": scalar(-1), **both}))
    refuse("refused_interleaved", "not features on axis 2",
           model_of([bidirectional, node("Transpose", ["Y"], ["t"], perm=[0, 2, 3, 1]),
                     node("Reshape", ["t", "shape"], ["r"]),
                     node("RNN", ["r", "W2", "R"], ["Y2"])], [X], ["Y2"],
                    {"shape": ints(0, 0, -1), "W2": random("W2", 2, H, 2 * H), **both}))
    refuse("refused_other_axis", "it would run over another axis",
           model_of([layer, node("Squeeze", ["Y", "one"], ["s"]),
                     node("Transpose", ["s"], ["t"], perm=[1, 0, 2]),
                     node("RNN", ["t", "R", "R"], ["Y2"])], [X], ["Y2"],
                    {"one": ints(1), **weights}))
    refuse("refused_initial_state", "input initial_h is neither zero nor an input",
           model_of([node("RNN", ["X", "W", "R", "B", "", "h"], ["Y"], hidden_size=H)], [X],
                    ["Y"], {"h": random("h", 1, B, H), **weights}))
    refuse("refused_weight_input", "input W is not a constant of floats",
           model_of([node("RNN", ["X", "W", "R"], ["Y"], hidden_size=H)],
                    [X, ("W", FLOAT, [1, H, I])], ["Y"], {"R": weights["R"]}))
    refuse("refused_shape", "input R has shape [1, 3, 3], not [1, 4, 4]",
           model_of([node("RNN", ["X", "W", "R"], ["Y"], hidden_size=4)], [X], ["Y"],
                    {**weights, "W": random("W4", 1, 4, I)}))
    refuse("refused_opset", "the model is of opset 6",
           model_of([layer], [X], ["Y"], weights, opset=6))
    doubled = [node("Concat", [f"W{i}", f"W{i}"], [f"W{i + 1}"], axis=0) for i in range(40)]
    refuse("refused_growth", "more than",
           model_of(doubled + [node("RNN", ["X", "W40", "R"], ["Y"])], [X], ["Y"],
                    {"W0": weights["W"], "R": weights["R"]}))
    refuse("refused_domain", "its operator is of the domain 'com.microsoft'",
           model_of([node("RNN", ["X", "W", "R"], ["Y"], domain="com.microsoft")], [X], ["Y"],
                    weights))


if __name__ == "__main__":
    shutil.rmtree(ROOT, ignore_errors=True)
    onnxruntime.set_default_logger_severity(4)
    for make in (constant_weights, single_nodes, batch_first, clipped, lengths_through_layers,
                 storage, chains, folding, branches, refusals):
        make()
    print(sum(1 for _ in pathlib.Path(ROOT).iterdir()), "models")
