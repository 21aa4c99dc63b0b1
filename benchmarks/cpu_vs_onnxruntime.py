#!/usr/bin/env python3
"""Times rnnc's CPU variant against ONNX Runtime on an LSTM, both on one core of this machine.

    python3 -m venv env && env/bin/pip install numpy onnx onnxruntime
    env/bin/python benchmarks/cpu_vs_onnxruntime.py --build build [--sizes 64,128] [--steps 100]

For each size H the model (H inputs, H units, batch 1) is compiled by `rnnc`, given to ONNX Runtime
as a graph of one LSTM node with the same weights, and both run the same input in one process that
is pinned to one core, by turns of BURST runs, as a program that serves one model would. Prints
medians in microseconds and their ratio, the fastest runs and theirs (which other work on the
machine moves less), and the largest difference of the outputs; exit 1 where the outputs differ by
more than 1e-4.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


BURST = 20


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [("device", ctypes.c_char_p), ("stream", ctypes.c_void_p),
                ("max_batch", ctypes.c_int64), ("max_timesteps", ctypes.c_int64),
                ("variant", ctypes.c_char_p), ("training", ctypes.c_int32)]


class Session:
    """A model.so on the CPU, through librnnrt.so."""

    def __init__(self, library, path, batch, steps):
        self.library = library
        self.kept = []
        module, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(library.rnnc_module_open(path.encode(), ctypes.byref(module)))
        options = Options(b"cpu", None, batch, steps, None, 0)
        self.check(library.rnnc_session_create(module, ctypes.byref(options),
                                               ctypes.byref(self.session)))

    def check(self, status):
        if status:
            self.library.rnnc_last_error.restype = ctypes.c_char_p
            self.library.rnnc_session_error.restype = ctypes.c_char_p
            sys.exit("rnnc: %s %s" % (self.library.rnnc_last_error(),
                                      self.library.rnnc_session_error(self.session)))

    def bind(self, name, array):
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = DLTensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, shape, None, 0)
        self.kept += [array, shape, tensor]
        self.check(self.library.rnnc_bind(self.session, name.encode(), ctypes.byref(tensor)))

    def run(self):
        self.check(self.library.rnnc_run(self.session))


def onnx_session(W, R, b, units, inputs):
    """One LSTM node; ONNX stacks the gates i o f g, rnnc i f g o."""
    def reorder(matrix):
        i, f, g, o = np.split(matrix, 4)
        return np.concatenate([i, o, f, g])[None]
    bias = np.concatenate([reorder(b), np.zeros((1, 4 * units), np.float32)], axis=1)
    constants = [helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.ravel())
                 for name, value in (("W", reorder(W)), ("R", reorder(R)), ("B", bias))]
    node = helper.make_node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=units)
    graph = helper.make_graph(
        [node], "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "B", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["T", 1, "B", units])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def compile_model(build, folder, units):
    spec = os.path.join(folder, "lstm%d.yaml" % units)
    module = os.path.join(folder, "lstm%d.so" % units)
    with open(spec, "w") as file:
        file.write("rnnc: 1\nname: lstm%d\ninput: {features: %d, batch: any, timesteps: any}\n"
                   "layers:\n  - {cell: lstm, units: %d, return_sequences: true, name: l0}\n"
                   "weights: {seed: 1}\n" % (units, units, units))
    subprocess.run([os.path.join(build, "rnnc"), spec, "-o", module, "--target", "cpu"], check=True)
    return module


def compare(library, module, units, steps, batch, seconds):
    random = np.random.default_rng(1)
    draw = lambda *shape: (random.random(shape, np.float32) - 0.5) * (2 / units ** 0.5)
    W, R, b = draw(4 * units, units), draw(4 * units, units), draw(4 * units)
    x = draw(batch, steps, units) * 4
    ours, y = Session(library, module, batch, steps), np.zeros((batch, steps, units), np.float32)
    for name, array in (("l0/W", W), ("l0/R", R), ("l0/b", b), ("x", x), ("y", y)):
        ours.bind(name, array)
    theirs = onnx_session(W, R, b, units, units)
    binding = theirs.io_binding()
    their_x = np.ascontiguousarray(x.transpose(1, 0, 2))
    their_y = np.zeros((steps, 1, batch, units), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, their_x.shape, their_x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, their_y.shape, their_y.ctypes.data)
    times = ([], [])
    runs = (ours.run, lambda: theirs.run_with_iobinding(binding))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 20:
        for run, samples in zip(runs, times):
            for _ in range(BURST):
                start = time.perf_counter()
                run()
                samples.append((time.perf_counter() - start) * 1e6)
    difference = float(np.abs(their_y[:, 0].transpose(1, 0, 2) - y).max())
    print("H=I=%d B=%d T=%d" % (units, batch, steps))
    for name, choose in (("median", statistics.median), ("fastest", min)):
        ours_us, theirs_us = (choose(samples) for samples in times)
        print("  %-8s rnnc %9.1f us, ONNX Runtime %9.1f us, ratio %.2f"
              % (name, ours_us, theirs_us, theirs_us / ours_us))
    print("  largest difference %.1e" % difference)
    return difference < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", help="folder with rnnc and librnnrt.so")
    parser.add_argument("--sizes", default="64,128")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3, help="a size")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    library = ctypes.CDLL(os.path.join(arguments.build, "librnnrt.so"))
    print("onnxruntime %s, onnx %s" % (onnxruntime.__version__, onnx.__version__))
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for units in map(int, arguments.sizes.split(",")):
            module = compile_model(arguments.build, folder, units)
            same &= compare(library, module, units, arguments.steps, arguments.batch,
                            arguments.seconds)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
