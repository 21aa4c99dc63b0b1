#!/usr/bin/env python3
"""What the chooser's estimates are worth: measured times beside them, by variant and layout.

    benchmarks/cost_models.py --compile DIR      compile every candidate (needs no GPU)
    benchmarks/cost_models.py DIR                measure on the GPU, DIR/*.plan, then the table
    benchmarks/cost_models.py --table DIR        the table of plans that are there

Options before DIR: --rnnc build/rnnc, --target sm_90, --filter TEXT (cases with it in their name),
--layouts N (of a variant). `rnnc tune` measures; a case whose plan is in DIR is not measured again.

The table goes to standard output, tab-separated, one line a measurement: the case's sizes, variant
and layout, microseconds of a step as measured and as estimated (the product W*x and the launch,
LAUNCH_US, taken off both), and the ratio. It is what the constants in compiler/plan/cluster.c,
grid.c, wide.c, cta.c and plan/variants are fitted to. Standard error gets the mean of |ratio - 1|
of each variant and precision, and the chooser's regret on each case and as a geometric mean: its
pick over the best measured. Needs nothing beside Python.
"""
import argparse
import json
import math
import os
import subprocess
import sys

LAUNCH_US = 8

# cell, inputs, units, layers, batch, timesteps
SHAPES = [
    ("lstm", 16, 64, 1, 32, 100), ("lstm", 64, 128, 1, 1, 200), ("lstm", 64, 128, 1, 32, 200),
    ("lstm", 256, 256, 1, 1, 500), ("lstm", 256, 256, 1, 32, 500), ("lstm", 256, 256, 1, 64, 500),
    ("lstm", 512, 512, 1, 1, 100), ("lstm", 512, 512, 1, 64, 100), ("lstm", 768, 768, 1, 16, 200),
    ("lstm", 1024, 1024, 1, 1, 100), ("lstm", 1024, 1024, 1, 32, 100),
    ("lstm", 2048, 2048, 1, 64, 25), ("gru", 256, 256, 1, 32, 500), ("gru", 512, 512, 1, 32, 200),
    ("gru", 256, 1024, 1, 1, 100), ("gru", 1024, 1024, 1, 32, 200), ("gru", 2048, 2048, 1, 32, 100),
    ("gru", 2816, 2816, 1, 1, 100), ("gru", 2816, 2816, 1, 32, 100), ("rnn", 512, 512, 1, 32, 200),
    ("rnn", 2560, 2560, 1, 64, 50),
]
PRECISIONS = ["float16", "float32"]
VARIANTS = ["persistent_cluster", "persistent_grid", "persistent_wide", "persistent_cta",
            "unrolled", "stepwise"]


def cases(text):
    for cell, inputs, units, layers, batch, steps in SHAPES:
        for precision in PRECISIONS:
            name = f"{cell}_h{units}_i{inputs}_l{layers}_b{batch}_t{steps}_{precision}"
            if text in name:
                yield name, (cell, inputs, units, layers, batch, steps, precision)


def write_spec(path, name, case):
    cell, inputs, units, layers, batch, steps, precision = case
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"rnnc: 1\nname: {name}\n"
                   f"input: {{features: {inputs}, batch: {batch}, timesteps: {steps}}}\n"
                   f"layers:\n  - {{cell: {cell}, units: {units}, layers: {layers}, "
                   f"return_sequences: true}}\n"
                   f"compile: {{precision: {precision}}}\nweights: {{seed: 1}}\n")


def tune(arguments, name, case):
    spec = os.path.join(arguments.folder, name + ".yaml")
    plan = os.path.join(arguments.folder, name + ".plan")
    if os.path.exists(plan) and not arguments.compile:
        return
    write_spec(spec, name, case)
    command = [arguments.rnnc, "tune", spec, "--layouts", str(arguments.layouts),
               "--modules", os.path.join(arguments.folder, "modules"),
               "--variants", ",".join(VARIANTS)]
    command += ["--compile", "--target", arguments.target] if arguments.compile else ["-o", plan]
    result = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if result.returncode:
        print(f"{name}: rnnc tune ended with {result.returncode}", file=sys.stderr)


def step_us(us, row, steps):
    return (us - (row["product_us"] or 0) - LAUNCH_US) / steps


def table(folder):
    errors, regrets = {}, []
    print("case", "precision", "batch", "timesteps", "variant", "layout", "measured_step_us",
          "estimated_step_us", "ratio", sep="\t")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".plan"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            plan = json.load(file)
        rows = [row for row in plan["measured"] if "us" in row and "refused" not in row]
        for row in rows:
            measured = step_us(row["us"], row, plan["timesteps"])
            estimated = step_us(row["estimate_us"], row, plan["timesteps"])
            layout = " ".join(f"{key}={value}" for key, value in row.get("layout", {}).items())
            print(plan["model"], plan["precision"], plan["batch"], plan["timesteps"],
                  row["variant"], layout or "-", f"{measured:.3f}", f"{estimated:.3f}",
                  f"{row['estimate_us'] / row['us']:.3f}", sep="\t")
            errors.setdefault((row["variant"], plan["precision"]), []).append(
                abs(row["estimate_us"] / row["us"] - 1))
        if rows:
            pick = min(rows, key=lambda row: row["estimate_us"])
            regrets.append(pick["us"] / min(row["us"] for row in rows))
            print(f"{plan['model']}: regret {regrets[-1]:.2f}", file=sys.stderr)
    for (variant, precision), all_of in sorted(errors.items()):
        print(f"{variant} {precision}: {100 * sum(all_of) / len(all_of):.0f} % off on average, "
              f"{len(all_of)} layouts", file=sys.stderr)
    if regrets:
        mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
        print(f"regret: geometric mean {mean:.3f}, at worst {max(regrets):.3f}, "
              f"{len(regrets)} cases", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--rnnc", default="build/rnnc")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--filter", default="")
    parser.add_argument("--layouts", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    if not arguments.table:
        for name, case in cases(arguments.filter):
            tune(arguments, name, case)
    if not arguments.compile:
        table(arguments.folder)


if __name__ == "__main__":
    main()
