#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py --cases DIR [--only GLOB] [--keep-table FILE] - the conformance
cases on cowfs, judged.

The cases are not part of this project: where DIR is not there this says so
and passes. They run through the adapter beside this file; the verdicts are
compared with expect.tsv. Whatever an unlucky case leaves behind (mounts,
processes, folders) is taken away and is a failure.
"""
import argparse
import csv
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import mountpoint  # noqa: E402


def read_expectations(path):
    allowed = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            case, verdict, reason = line.split("\t", 2)
            allowed[case] = (verdict, reason)
    return allowed


def read_index(path):
    with open(path, newline="") as f:
        rows = csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["id"]: row for row in rows}


def run_cases(cases, work, table, only, limit):
    env = mountpoint.environment()
    env["QA_WORK"] = str(work)
    env.pop("QA_SMALL", None)
    runner = subprocess.Popen(
        ["bash", str(cases / "run-all.sh"), str(HERE / "cowfs.sh"),
         str(table), only],
        env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        runner.wait(limit)
        return True
    except subprocess.TimeoutExpired:
        os.killpg(runner.pid, signal.SIGKILL)
        print(f"conformance: not done after {limit} s", file=sys.stderr)
        return False


def judge(table, allowed, index):
    """Prints what is not a plain pass; returns the number of faults."""
    faults = 0
    seen = 0
    for line in table.read_text(errors="replace").splitlines():
        name, verdict, detail = (line.split("\t", 2) + ["", ""])[:3]
        case = name[:3]
        seen += 1
        want, reason = allowed.get(case, ("PASS", ""))
        on_ext4 = index.get(case, {}).get("ext4", "")
        if verdict == "PASS":
            if case in allowed:
                print(f"{name}: passes now, expect.tsv has it as {want}")
        elif verdict == "SKIP" and on_ext4 == "SKIP":
            print(f"{name}: SKIP, as on ext4: {detail}")
        elif verdict == want and verdict != "SKIP":
            print(f"{name}: {verdict}, expected: {reason} ({detail})")
        else:
            print(f"{name}: {verdict}, not expected: {detail}")
            faults += 1
    return seen, faults


def left_over(work):
    left = [f"mount {m}" for m in mountpoint.mounts_below(work)]
    left += [f"process {p}" for p in mountpoint.processes_of(work)]
    if left:
        mountpoint.force_away(work)
    return left + [str(p) for p in pathlib.Path(work).rglob("*")][:5]


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--cases", required=True, type=pathlib.Path)
    ap.add_argument("--only", default="[0-9]", help="glob prefix of cases")
    ap.add_argument("--keep-table", type=pathlib.Path)
    ap.add_argument("--limit", type=int, default=1500, help="seconds")
    args = ap.parse_args()
    cases = pathlib.Path(os.environ.get("COWFS_CASES") or args.cases)
    if not (cases / "run-all.sh").is_file():
        print(f"conformance: the cases are not there ({cases}): not run")
        return 0
    if os.geteuid() != 0:
        print("conformance: needs root: not run")
        return 1 if mountpoint.required("root") else 0
    work = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-cases-"))
    # mkdtemp's 0700 would keep other users, whom cases try, out of the base.
    work.chmod(0o755)
    table = work.parent / (work.name + ".tsv")
    try:
        ended = run_cases(cases, work, table, args.only, args.limit)
        left = left_over(work)
        seen, faults = judge(table, read_expectations(HERE / "expect.tsv"),
                             read_index(cases / "INDEX.tsv"))
        for what in left:
            print(f"left over: {what}")
        if args.keep_table:
            shutil.copy(table, args.keep_table)
        print(f"conformance: {seen} cases, {faults} not as expected")
        return 0 if ended and seen and not faults and not left else 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
        table.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
