#!/usr/bin/env python3
"""Holds the hard stops of the house style over the source tree.

    lint.py rules ROOT          sizes, include direction, names, comments, marks of unfinished work
    lint.py format ROOT         clang-format 14 over every .c and .h; exit 77 where it is missing
    lint.py specs ROOT RNNC     every model under specs/ is read and explained without an error

A finding is one line `path:line: rule: text`; exit 1 when there is any. Rules are functions of the
table RULES, each given one file; a file that no rule fits costs nothing.
"""
import os
import re
import shutil
import subprocess
import sys

FILE_LINES, FUNCTION_LINES, COLUMNS = 700, 120, 100
STAGES = ["base", "spec", "cell", "import", "model", "plan", "emit", "build", "bench", "train",
          "cli"]
# import reads weight files: it knows base and the names of cells, nothing of the spec.
NARROWER = {"import": {"base", "cell", "import"}}
FORBIDDEN_NAMES = {"util", "utils", "misc", "common", "helper", "helpers"}
C_LIKE = (".c", ".h", ".cu", ".cuh", ".def")
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt")
# Spelled in two parts, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(?:%s)\b" % "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]))
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^">]+)[">]')


def tree_files(root):
    """Paths of all files below root, relative to it; build folders, by the name of our presets or
    CMake's cache in them, and hidden ones left out."""
    found = []
    for folder, folders, names in os.walk(root):
        at_root = os.path.samefile(folder, root)
        if not at_root and "CMakeCache.txt" in names:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not (
            name.startswith(".") or name == "__pycache__" or at_root and name.startswith("build")))
        for name in sorted(names):
            found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def is_source(path):
    return path.endswith(C_LIKE + SCRIPTS)


def rule_file_length(path, lines):
    if is_source(path) and len(lines) > FILE_LINES:
        yield 1, "%d lines, at most %d" % (len(lines), FILE_LINES)


def rule_line_length(path, lines):
    if not is_source(path):
        return
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, "%d columns, at most %d" % (len(line), COLUMNS)


def rule_function_length(path, lines):
    """A body is what stands between `{` and `}` in column 0 (the format guarantees it)."""
    if not path.endswith((".c", ".h", ".cu", ".cuh")):
        return
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            if number - start + 1 > FUNCTION_LINES:
                yield start, "function of %d lines, at most %d" % (
                    number - start + 1, FUNCTION_LINES)
            start = None


def stage_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "compiler" and len(parts) > 2 else None


def rule_include_direction(path, lines):
    if not path.endswith(C_LIKE):
        return
    stage = stage_of(path)
    if stage is not None and stage not in STAGES:
        yield 1, "compiler/%s is no stage" % stage
        return
    allowed = set(STAGES)
    if stage is not None:
        allowed = NARROWER.get(stage, set(STAGES[:STAGES.index(stage) + 1]))
    elif path.startswith(("runtime/", "templates/")):
        allowed = set()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        target = match.group(1) if match else ""
        if target.startswith("compiler/"):
            target = target[len("compiler/"):]
        first = target.split("/")[0]
        if "/" in target and first in STAGES and first not in allowed:
            yield number, '"%s" may not be included from %s' % (
                target, "compiler/" + stage if stage else path.split("/")[0])


def rule_name(path, _lines):
    stem = os.path.basename(path).split(".")[0].lower()
    words = set(re.split(r"[_-]", stem))
    if is_source(path) and words & FORBIDDEN_NAMES:
        yield 1, "a file's name says what is in the room; this one does not"


def rule_unfinished(path, lines):
    if not is_source(path):
        return
    for number, line in enumerate(lines, 1):
        match = UNFINISHED.search(line)
        if match:
            yield number, "%s: unfinished work does not land" % match.group(0)


def rule_opening_comment(path, lines):
    """Every source says in its first lines what it is for."""
    text = [line for line in lines if line.strip() and not line.startswith("#!")]
    first = text[0].strip() if text else ""
    if path.endswith(C_LIKE) and not first.startswith(("//", "/*")):
        yield 1, "does not open with a comment"
    if path.endswith(".py") and not first.startswith(('"""', "#")):
        yield 1, "does not open with a docstring"
    if path.endswith((".sh", ".cmake", "CMakeLists.txt")) and not first.startswith("#"):
        yield 1, "does not open with a comment"


RULES = [
    ("file-length", rule_file_length),
    ("line-length", rule_line_length),
    ("function-length", rule_function_length),
    ("include-direction", rule_include_direction),
    ("name", rule_name),
    ("unfinished", rule_unfinished),
    ("opening-comment", rule_opening_comment),
]


def check_rules(root):
    findings = []
    for path in tree_files(root):
        lines = []
        if is_source(path):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                lines = file.read().split("\n")
            if lines and lines[-1] == "":
                lines.pop()
        for name, rule in RULES:
            for number, text in rule(path, lines):
                findings.append("%s:%d: %s: %s" % (path, number, name, text))
    return findings


def clang_format_14():
    """The program, or None with the reason."""
    for name in ("clang-format-14", "clang-format"):
        program = shutil.which(name)
        if program is None:
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        match = re.search(r"version (\d+)", version)
        if match and match.group(1) == "14":
            return program, None
    return None, "clang-format 14 is not installed"


def check_format(root, program):
    findings = []
    files = [path for path in tree_files(root) if path.endswith((".c", ".h"))]
    for start in range(0, len(files), 64):
        run = subprocess.run([program, "--dry-run", "-Werror"] + files[start:start + 64], cwd=root,
                             capture_output=True, text=True)
        places = re.findall(r"^(\S+:\d+):\d+: error: ", run.stderr, re.MULTILINE)
        findings += ["%s: format: not as .clang-format says" % place for place in places]
        if run.returncode != 0 and not places:
            findings.append("format: " + run.stderr.strip())
    return findings


def check_specs(root, rnnc):
    findings = []
    for path in tree_files(root):
        if not (path.startswith("specs/") and path.endswith((".yaml", ".yml"))):
            continue
        run = subprocess.run([rnnc, "explain", os.path.join(root, path)], capture_output=True,
                             text=True)
        if run.returncode != 0:
            findings.append("%s:1: specs: exit %d: %s" % (
                path, run.returncode, run.stderr.strip().split("\n")[0]))
    return findings


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("rules", "format", "specs"):
        print(__doc__)
        return 2
    verb, root = arguments[0], arguments[1]
    if verb == "rules":
        findings = check_rules(root)
    elif verb == "format":
        program, reason = clang_format_14()
        if program is None:
            print("skipped: " + reason)
            return 77
        findings = check_format(root, program)
    else:
        findings = check_specs(root, arguments[2])
    for finding in findings:
        print(finding)
    print("%d findings" % len(findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
