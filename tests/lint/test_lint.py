#!/usr/bin/env python3
"""Plants one violation of each rule in a temporary tree and sees lint.py find it there and nowhere
else, so that a rule which stopped working is noticed."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lint  # noqa: E402

GOOD = "// Good: a file that breaks no rule.\nint good(void);\n"
LONG_BODY = "// Long.\nint f(void)\n{\n" + "    g();\n" * 119 + "}\n"
LIMIT_BODY = "// At the limit.\nint f(void)\n{\n" + "    g();\n" * 118 + "}\n"

# (rule, path, text, line where it must be found; None: nothing may be found)
CASES = [
    (None, "compiler/base/good.c", GOOD, None),
    (None, "compiler/plan/good.h", GOOD + '#include "model/model.h"\n#include <stdio.h>\n', None),
    (None, "compiler/import/good.c", GOOD + '#include "cell/cell.h"\n', None),
    (None, "runtime/src/good.c", GOOD + '#include "rnnc/module.h"\n', None),
    (None, "compiler/base/limit.c", LIMIT_BODY, None),
    (None, "compiler/base/columns.c", "// " + "x" * 97 + "\n", None),
    ("file-length", "compiler/base/long.c", "// Long.\n" * 701, 1),
    ("line-length", "compiler/base/wide.c", "// Wide.\n// " + "x" * 98 + "\n", 2),
    ("line-length", "scripts/wide.sh", "# Wide.\n# " + "x" * 99 + "\n", 2),
    ("function-length", "runtime/src/body.c", LONG_BODY, 3),
    ("include-direction", "compiler/cell/up.c", '// Up.\n#include "plan/plan.h"\n', 2),
    ("include-direction", "compiler/import/side.c", '// Side.\n#include "spec/spec.h"\n', 2),
    ("include-direction", "runtime/src/over.c", '// Over.\n#include "base/arena.h"\n', 2),
    ("include-direction", "runtime/src/path.c", '// P.\n#include "compiler/base/arena.h"\n', 2),
    ("include-direction", "compiler/attic/old.c", "// A folder that is no stage.\n", 1),
    ("name", "compiler/base/file_" + "util.c", GOOD, 1),
    ("name", "tests/unit/" + "common.h", GOOD, 1),
    ("unfinished", "compiler/base/later.c", "// Later.\n// " + "TO" + "DO: all of it\n", 2),
    ("unfinished", "scripts/later.sh", "# Later.\n# " + "FIX" + "ME\n", 2),
    ("opening-comment", "compiler/base/bare.c", "int bare;\n", 1),
    ("opening-comment", "scripts/bare.sh", "#!/bin/sh\nset -e\n", 1),
    ("opening-comment", "scripts/bare.py", "import os\n", 1),
]


def plant(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def run_case(rule, path, text, line):
    """None when the finding is the wanted one, else what was found."""
    with tempfile.TemporaryDirectory() as root:
        plant(root, path, text)
        found = lint.check_rules(root)
    wanted = [] if rule is None else ["%s:%d: %s" % (path, line, rule)]
    heads = [":".join(finding.split(":")[:3]) for finding in found]
    return None if heads == wanted else "%s: wanted %s, found %s" % (path, wanted, found)


def run_build_folder_case():
    """What CMake generates is no source, whatever its folder is called."""
    with tempfile.TemporaryDirectory() as root:
        plant(root, "b/CMakeCache.txt", "")
        plant(root, "b/tests/bare.c", "int bare;\n")
        found = lint.check_rules(root)
    return None if not found else "build folder: found %s" % found


def run_format_case():
    program, _reason = lint.clang_format_14()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as root:
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        shutil.copy(os.path.join(source, ".clang-format"), root)
        plant(root, "compiler/base/good.c", GOOD)
        plant(root, "compiler/base/bad.c", "// Bad.\nint  bad( void );\n")
        found = lint.check_format(root, program)
    ok = found and all(finding.startswith("compiler/base/bad.c:2") for finding in found)
    return None if ok else "format: found %s" % found


def run_specs_case():
    """A spec is refused when the program that reads it says so (here: `false` for any)."""
    with tempfile.TemporaryDirectory() as root:
        plant(root, "specs/deep/broken.yaml", "rnnc: 1\n")
        found = lint.check_specs(root, shutil.which("false"))
        clean = lint.check_specs(root, shutil.which("true"))
    ok = len(found) == 1 and found[0].startswith("specs/deep/broken.yaml:1: specs") and not clean
    return None if ok else "specs: found %s and %s" % (found, clean)


def main():
    planted = {case[0] for case in CASES}
    faults = ["rule %s is not planted" % name for name, _ in lint.RULES if name not in planted]
    faults += [fault for fault in (run_case(*case) for case in CASES) if fault]
    faults += [fault for fault in (
        run_build_folder_case(), run_format_case(), run_specs_case()) if fault]
    for fault in faults:
        print(fault)
    print("%d cases, %d faults" % (len(CASES) + 3, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
