#!/usr/bin/env python3
"""Golden cases: the program's words, to the letter.

    run.py RNNC [--update] [NAME...]     run all cases, or those whose path begins with a NAME

A case is a folder with `expected` in it; its name is its path below this one. The other files are
its input. It runs in a copy of its folder, where `command` (a line for sh, in which `rnnc` is the
program) is carried out; without that file it is `rnnc model.yaml -o model.so`. `expected` holds the
exit code, standard output and standard error:

    exit 1
    --- stdout
    --- stderr
    model.yaml:4:5: error: ...

A case that ends with another code than 0 must leave no new file behind. `--update` writes what was
seen into `expected`; read the difference before it is committed. To add a case, make the folder
with an empty `expected` and update.
"""
import difflib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEFAULT_COMMAND = "rnnc model.yaml -o model.so"
SECONDS = 120


def case_names():
    found = []
    for folder, folders, names in os.walk(HERE):
        folders.sort()
        if "expected" in names:
            found.append(os.path.relpath(folder, HERE))
    return found


def read(path, default=None):
    if default is not None and not os.path.exists(path):
        return default
    with open(path, encoding="utf-8") as file:
        return file.read()


def all_files(folder):
    return {os.path.relpath(os.path.join(at, name), folder)
            for at, _, names in os.walk(folder) for name in names}


def observe(rnnc, name, scratch):
    """Runs a case in scratch/case; returns the text that `expected` should hold."""
    folder = os.path.join(scratch, "case")
    shutil.copytree(os.path.join(HERE, name), folder,
                    ignore=shutil.ignore_patterns("expected", "command"))
    before = all_files(folder)
    bin_folder = os.path.join(scratch, "bin")
    os.makedirs(bin_folder, exist_ok=True)
    if not os.path.lexists(os.path.join(bin_folder, "rnnc")):
        os.symlink(os.path.abspath(rnnc), os.path.join(bin_folder, "rnnc"))
    environment = {"PATH": bin_folder + ":" + os.environ["PATH"], "HOME": scratch, "NO_COLOR": "1",
                   "LC_ALL": "C.UTF-8", "SPECS": os.path.join(ROOT, "specs")}
    command = read(os.path.join(HERE, name, "command"), DEFAULT_COMMAND)
    run = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, timeout=SECONDS,
                         stdin=subprocess.DEVNULL, capture_output=True)
    out, err = (text.decode("utf-8", "backslashreplace").replace(ROOT + "/", "")
                for text in (run.stdout, run.stderr))
    left = sorted(all_files(folder) - before) if run.returncode else []
    seen = "exit %d\n--- stdout\n%s--- stderr\n%s" % (run.returncode, out, err)
    return seen + "".join("--- left behind: %s\n" % path for path in left)


def run_case(rnnc, name, update):
    with tempfile.TemporaryDirectory() as scratch:
        seen = observe(rnnc, name, scratch)
    path = os.path.join(HERE, name, "expected")
    wanted = read(path)
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(seen)
    elif seen != wanted:
        print("FAIL %s" % name)
        sys.stdout.writelines(line if line.endswith("\n") else line + "\n"
                              for line in difflib.unified_diff(
                                  wanted.splitlines(True), seen.splitlines(True),
                                  "expected", "seen"))
    return update or seen == wanted


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    rnnc, update = arguments[0], "--update" in arguments
    chosen = [word for word in arguments[1:] if word != "--update"]
    names = [name for name in case_names()
             if not chosen or any(name.startswith(word) for word in chosen)]
    failed = sum(not run_case(rnnc, name, update) for name in names)
    print("%d golden cases, %d failed%s" % (len(names), failed, " (updated)" if update else ""))
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
