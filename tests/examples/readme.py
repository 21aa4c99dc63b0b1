#!/usr/bin/env python3
"""Runs the session that the README, or another page, shows and compares what it prints.

    readme.py PAGE BUILD SOURCE

Every ```console block is a list of commands, each after "$ ", with their output below. They run in
order in a fresh folder in which `build`, `specs` and `examples` are links. Times, instruction-set
levels and the name of a GPU may differ. A ```c block must be examples/minimal.c to the letter.
"""
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

MASKS = [
    (r"\d+(\.\d+)? (ms|s)\b", "TIME"),
    (r"x86-64-v\d|baseline", "LEVEL"),
]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def steps(block):
    """Pairs of a command and the output that the README shows for it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def masked(text):
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text.splitlines()


def main(readme, build, source):
    text = pathlib.Path(readme).read_text()
    build, source = pathlib.Path(build).resolve(), pathlib.Path(source).resolve()
    failures = 0
    if any(block != (source / "examples/minimal.c").read_text() for block in blocks(text, "c")):
        print(f"the C program of {readme} is not examples/minimal.c")
        failures += 1
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("build", build), ("specs", source / "specs"),
                             ("examples", source / "examples")):
            (pathlib.Path(folder) / name).symlink_to(target)
        for block in blocks(text, "console"):
            for command, wanted in steps(block):
                ran = subprocess.run(command, shell=True, cwd=folder, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                diff = list(difflib.unified_diff(masked(wanted), masked(ran.stdout), "README",
                                                 command, lineterm=""))
                print("\n".join(diff) if diff else f"same: {command}")
                failures += bool(diff)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
