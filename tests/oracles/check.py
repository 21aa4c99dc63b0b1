"""Compiles every oracle case of a framework and compares what rnnc gives with what it gave.

    check.py [--device D] RNNC FOLDER [NAME...]

A fault is |difference| > 1e-6 max(1, |expected|) in an element, or as much as the case's file
`tolerance` says with its reason. The device is `cpu`; for another,
such as `cuda:0`, modules are compiled for sm_90.

Needs nothing beyond Python's own library.
"""

import argparse
import concurrent.futures
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

TOLERANCE = 1e-6


def read_npy(data):
    """Shape and values of a float32 array."""
    length = struct.unpack_from("<H", data, 8)[0]
    header = eval(data[10:10 + length].decode(), {})  # a literal dict that numpy wrote
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f"not a float32 array in C order: {header}")
    values = data[10 + length:]
    return header["shape"], struct.unpack(f"<{len(values) // 4}f", values)


def compare(name, found, expected, tolerance):
    """What is wrong with one output, or None."""
    if found[0] != expected[0]:
        return f"{name} is {list(found[0])}, not {list(expected[0])}"
    worst, place = 0.0, None
    for i, (a, b) in enumerate(zip(found[1], expected[1])):
        excess = abs(a - b) / (tolerance * max(1, abs(b)))
        if math.isnan(excess) or excess > max(worst, 1.0):
            worst, place = excess, i
            if math.isnan(excess):
                break
    if place is None:
        return None
    return (f"{name}: element {place} of {list(expected[0])} is {found[1][place]:.8g}, not "
            f"{expected[1][place]:.8g}")


def arguments_of(arrays, folder):
    """Unpacks the inputs; returns the arguments of `rnnc run` and the expected outputs."""
    arguments, expected, states = [], {}, {}
    for member in arrays.namelist():
        kind, _, name = member.removesuffix(".npy").partition("/")
        path = folder / (member.replace("/", "_"))
        if kind == "state":
            states[name] = arrays.read(member)
        elif kind == "out":
            expected[name] = (path, read_npy(arrays.read(member)))
            arguments += ["--out", f"{name}={path}"]
        else:
            path.write_bytes(arrays.read(member))
            arguments += ["--in", f"{name}={path}"] if kind == "in" else [f"--{kind}", str(path)]
    if states:
        with zipfile.ZipFile(folder / "states.npz", "w") as out:
            for name, data in states.items():
                out.writestr(f"{name}.npy", data)
        arguments += ["--state", str(folder / "states.npz")]
    return arguments, expected


def spec_of(rnnc, case, folder):
    """The case's spec: its own, or the one that an import of its model writes; or what failed."""
    if (case / "model.yaml").exists():
        return case / "model.yaml", None
    models = [path for path in case.iterdir() if path.name.startswith("model.")]
    options = (case / "import").read_text().split() if (case / "import").exists() else []
    result = subprocess.run([rnnc, "import", models[0], "-o", folder / "imported", *options],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None, result.stderr.strip() or f"exit {result.returncode}"
    return folder / "imported" / "model.yaml", None


def options_of(case, spec):
    """More options of `rnnc run`: lines `# run: ` of the spec, or the file `run`."""
    if (case / "run").exists():
        return (case / "run").read_text().split()
    return sum((line.removeprefix("# run: ").split() for line in spec.read_text().splitlines()
                if line.startswith("# run: ")), [])


def tolerance_of(case):
    """1e-6, or the number before the colon in the case's file `tolerance`."""
    return float((case / "tolerance").read_text().split(":")[0]
                 if (case / "tolerance").exists() else TOLERANCE)


def faults_of(rnnc, case, device="cpu"):
    """Every way in which a case is not as the framework has it."""
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(case / "arrays.npz") as arrays:
        folder = pathlib.Path(name)
        arguments, expected = arguments_of(arrays, folder)
        spec, failure = spec_of(rnnc, case, folder)
        if failure:
            return [failure]
        module = str(folder / "model.so")
        target = "cpu" if device == "cpu" else "sm_90"
        for command in ([rnnc, str(spec), "-o", module, "--target", target],
                        [rnnc, "run", module, "--device", device, *arguments,
                         *options_of(case, spec)]):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0 or "warning" in result.stderr:
                return [result.stderr.strip() or f"exit {result.returncode}"]
        faults = [compare(name, read_npy(path.read_bytes()), right, tolerance_of(case))
                  for name, (path, right) in expected.items()]
        return [fault for fault in faults if fault]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("rnnc")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    cases = sorted(path for path in given.root.iterdir() if path.is_dir())
    if given.names:
        cases = [case for case in cases if case.name in given.names]
    if not cases:
        sys.exit(f"no case in {given.root}")
    failed = 0
    workers = min(2 if given.device == "cpu" else 8, os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda case: faults_of(given.rnnc, case, given.device), cases)
        for case, faults in zip(cases, found):
            failed += bool(faults)
            for fault in faults:
                print(f"{given.root.name}/{case.name}: {fault}")
    print(f"{len(cases) - failed} of {len(cases)} cases of {given.root.name} as the framework has "
          "them")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
