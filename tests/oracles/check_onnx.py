"""Imports every ONNX model of a folder and compares what rnnc gives with the model's own tests.

    check_onnx.py RNNC UNPACK_ONNX FOLDER [NAME...]

FOLDER/<name>/ holds model.onnx and test_data_set_0/, or refused.txt: words that the refusal has to
contain. Exit 77 where FOLDER is not there. Needs nothing beyond Python's own library.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import check


def faults_of(rnnc, unpack, folder, device="cpu"):
    """Every way in which a model is not taken as it should be."""
    with tempfile.TemporaryDirectory() as name:
        case = pathlib.Path(name) / "case"
        result = subprocess.run([unpack, str(folder / "model.onnx"),
                                 str(folder / "test_data_set_0"), str(case)],
                                capture_output=True, text=True, check=False)
        refused = folder / "refused.txt"
        if refused.exists():
            words = refused.read_text().strip()
            if result.returncode == 1 and words in result.stderr:
                return []
            return [f"not refused with '{words}', but exit {result.returncode}: {result.stderr}"]
        if result.returncode != 0:
            return [result.stderr.strip()]
        return check.faults_of(rnnc, case, device)


def main():
    rnnc, unpack, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    if not root.is_dir():
        print(f"skipped: {root} is not there")
        sys.exit(77)
    models = sorted(path for path in root.iterdir() if (path / "model.onnx").exists())
    if sys.argv[4:]:
        models = [model for model in models if model.name in sys.argv[4:]]
    if not models:
        sys.exit(f"no model in {root}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        faults = pool.map(lambda model: faults_of(rnnc, unpack, model), models)
        for model, found in zip(models, faults):
            failed += bool(found)
            for fault in found:
                print(f"{root.name}/{model.name}: {fault}")
    print(f"{len(models) - failed} of {len(models)} models of {root.name} as they should be")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
