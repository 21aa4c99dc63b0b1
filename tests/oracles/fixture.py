"""Writes one oracle case: a folder with model.yaml, model.safetensors and arrays.npz.

Members of arrays.npz: in/x, mask, lengths, state/<layer>/h (given to rnnc) and out/y, out/enc/h
(what the framework gave). The same script writes the same bytes. Needs numpy and safetensors.
"""

import io
import pathlib
import shutil
import zipfile
import zlib

import numpy
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent


def random(name, *shape):
    """Values in (-0.7, 0.7), the same for the same name."""
    seed = zlib.crc32(name.encode())
    return numpy.random.default_rng(seed).uniform(-0.7, 0.7, shape).astype(numpy.float32)


def clear(framework):
    """Removes the framework's cases, so that one that is no longer written does not stay."""
    shutil.rmtree(HERE / framework, ignore_errors=True)


def write_case(framework, name, spec, weights, arrays, convention=None, run=None, header=""):
    """`spec`: what goes between `rnnc: 1` and `weights:`; `run`: more options of `rnnc run`."""
    folder = HERE / framework / name
    folder.mkdir(parents=True)
    first = f"# {header}\n" + (f"# run: {run}\n" if run else "")
    (folder / "model.yaml").write_text(
        f"{first}rnnc: 1\n{spec.strip()}\n"
        f"weights: {{file: model.safetensors, convention: {convention or framework}}}\n")
    save_file({key: numpy.ascontiguousarray(value) for key, value in weights.items()},
              folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)
    arrays_to(folder, arrays)


def arrays_to(folder, arrays, run=()):
    """Writes arrays.npz; `run`: more options of `rnnc run`, for a case without a model.yaml."""
    if run:
        (folder / "run").write_text(" ".join(run) + "\n")
    with zipfile.ZipFile(folder / "arrays.npz", "w", zipfile.ZIP_DEFLATED) as out:
        for key, value in arrays.items():
            member = io.BytesIO()
            numpy.save(member, numpy.ascontiguousarray(value))
            out.writestr(zipfile.ZipInfo(key + ".npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
