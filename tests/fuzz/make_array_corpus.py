"""Writes tests/fuzz/corpus/npy and safetensors: small files of every type, form and fault, which
the fuzz targets start from. Needs nothing beyond Python's own library.

    python make_array_corpus.py
"""

import json
import pathlib
import shutil
import struct

HERE = pathlib.Path(__file__).parent / "corpus"
NPY_TYPES = {"<f2": 2, "<f4": 4, "<f8": 8, "<i4": 4, "<i8": 8, "|u1": 1, "|b1": 1}
DTYPES = {"BOOL": 1, "U8": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "F64": 8, "I64": 8}


def npy(name, header, data_bytes, version=1):
    head = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    (HERE / "npy" / name).write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + head +
                                      bytes(range(1, data_bytes + 1)))


def entry(descr, shape, order=False):
    return f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }} \n"


def make_npy():
    for descr, size in NPY_TYPES.items():
        npy(f"{descr[1:]}.npy", entry(descr, "(2, 3)"), 6 * size)
    for version in (2, 3):
        npy(f"version_{version}.npy", entry("<f4", "(1,)"), 4, version)
    npy("scalar.npy", entry("<f4", "()"), 4)
    npy("empty.npy", entry("<f4", "(0, 9223372036854775807)"), 0)
    npy("dims_8.npy", entry("|u1", "(1, 1, 2, 1, 1, 1, 1, 2)"), 4)
    npy("python_2.npy", '{"shape":(4L,),"descr":"|u1","fortran_order":False}', 4)
    npy("fortran.npy", entry("<f4", "(1, 2)", True), 8)
    npy("big_endian.npy", entry(">f4", "(1,)"), 4)
    npy("structured.npy", entry([("a", "<f4")], "(1,)"), 4)
    npy("object.npy", entry("|O", "(1,)"), 8)
    npy("too_large.npy", entry("<f8", "(4294967296, 4294967296)"), 8)
    npy("dims_9.npy", entry("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 1)


def safetensors(name, tensors, data_bytes, metadata=None, text=None):
    header = dict(metadata and {"__metadata__": metadata} or {})
    for key, (dtype, shape, begin, end) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    head = (text or json.dumps(header, separators=(",", ":"))).encode()
    (HERE / "safetensors" / f"{name}.safetensors").write_bytes(
        struct.pack("<Q", len(head)) + head + bytes(range(1, data_bytes + 1)))


def make_safetensors():
    for dtype, size in DTYPES.items():
        safetensors(dtype.lower(), {"a": (dtype, [2, 1], 0, 2 * size)}, 2 * size)
    safetensors("none", {}, 0)
    safetensors("several", {"b": ("F16", [3], 8, 14), "a": ("F32", [2], 0, 8),
                            "c": ("F64", [], 14, 22)}, 22, {"format": "pt"})
    safetensors("empty", {"a": ("F32", [0, 7], 0, 0), "b": ("F32", [1], 0, 4)}, 4)
    safetensors("dims_8", {"a": ("U8", [1] * 8, 0, 1)}, 1)
    safetensors("dims_9", {"a": ("U8", [1] * 9, 0, 1)}, 1)
    safetensors("overlap", {"a": ("U8", [3], 0, 3), "b": ("U8", [2], 2, 4)}, 4)
    safetensors("hole", {"a": ("U8", [1], 0, 1), "b": ("U8", [1], 2, 3)}, 3)
    safetensors("short", {"a": ("U8", [9], 0, 9)}, 3)
    safetensors("too_large", {"a": ("F64", [1 << 62, 4], 0, 8)}, 8)
    safetensors("twice", {}, 1, text='{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                     '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}')
    safetensors("metadata", {}, 0, text='{"__metadata__":{"a":1}}')


if __name__ == "__main__":
    for folder, make in (("npy", make_npy), ("safetensors", make_safetensors)):
        shutil.rmtree(HERE / folder, ignore_errors=True)
        (HERE / folder).mkdir(parents=True)
        make()
