"""Runs every oracle case on a device: those of check.py and those of check_onnx.py.

    check_device.py [--device cuda:0] RNNC UNPACK_ONNX

Modules are compiled on the way, by as many as there are cores: needs NVRTC and a C compiler, and
nothing beyond Python's own library. A line FAIL for each fault; the last is

    N passed, N failed, N skipped

Exit 77 where there is no C compiler.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import sys

import check
import check_onnx

HERE = pathlib.Path(__file__).parent
CASES = ("keras", "keras_files", "pytorch", "pytorch_files", "onnx")
MODELS = (HERE / "onnx_models", HERE / "onnx_torch")
NODE_TESTS = "onnx-node-tests"  # of the ONNX project: beside the tree, in it, or beside the program


def node_tests(rnnc):
    """The folder of the ONNX project's node tests, or None."""
    places = (HERE / "../../../shared", HERE / "../../shared", pathlib.Path(rnnc).parent)
    return next((place / NODE_TESTS for place in places if (place / NODE_TESTS).is_dir()), None)


def jobs_of(rnnc, unpack, device, roots):
    """A name and what finds its faults, for every case and model that is there."""
    for root in CASES:
        for case in sorted(path for path in (HERE / root).iterdir() if path.is_dir()):
            yield f"{root}/{case.name}", lambda case=case: check.faults_of(rnnc, case, device)
    for root in roots:
        for model in sorted(root.iterdir()):
            if (model / "model.onnx").exists():
                yield (f"{root.name}/{model.name}",
                       lambda model=model: check_onnx.faults_of(rnnc, unpack, model, device))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("rnnc")
    parser.add_argument("unpack_onnx")
    given = parser.parse_args()
    if not shutil.which((os.environ.get("CC") or "cc").split()[0]):
        print("skipped: there is no C compiler")
        sys.exit(77)
    more = node_tests(given.rnnc)
    if not more:
        print(f"skipped: there is no {NODE_TESTS}")
    jobs = list(jobs_of(given.rnnc, given.unpack_onnx, given.device,
                        MODELS + ((more,) if more else ())))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for (name, _), faults in zip(jobs, pool.map(lambda job: job[1](), jobs)):
            failed += bool(faults)
            for fault in faults:
                print(f"FAIL {name}: {fault}", flush=True)
    print(f"{len(jobs) - failed} passed, {failed} failed, {int(not more)} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
