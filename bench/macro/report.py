# SPDX-License-Identifier: MIT
"""report.py - what a run has found, as results.json, as a table in Markdown and
as a picture. README.md has the form of results.json."""
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

from macro import BENCH, contenders, stats, works

BASES = ("native", "cp -a", "bubblewrap", "podman")  # what ratios are of

# The short table: works, and who stands in a column, the first that has a figure.
GLANCE = (("small", "create"), ("large", "create"), ("small", "destroy"),
          ("small", "20 at once"), ("small", "disk used by 20"),
          ("small", "cold start to the first green test"),
          ("root", "container start to first output"),
          ("file", "1 byte in a huge file"), ("medium", "git status, warm"),
          ("medium", "tar, warm"), ("medium", "tar, cold"),
          ("medium", "untar"), ("small", "jest"), ("small", "npm ci"))
COLUMNS = (("plain folder, or `cp -a`", ("native", "cp -a")),
           ("`git worktree`", ("git worktree",)),
           ("btrfs snapshot", ("btrfs snapshot",)),
           ("overlayfs", ("overlayfs",)),
           ("fuse-overlayfs", ("fuse-overlayfs",)),
           ("podman", ("podman",)), ("cowfs", ("cowfs",)))


def words(*argv):
    """What a command prints, in one line; nothing where it cannot."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout.splitlines() or [""])[0].strip()


def machine(scratch):
    with open("/proc/cpuinfo") as f:
        names = [line.split(":")[1].strip() for line in f
                 if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    commit = words("git", "-C", str(BENCH), "rev-parse", "--short=12", "HEAD")
    return {
        "date": datetime.datetime.now().astimezone().isoformat("T", "seconds"),
        "kernel": platform.release(), "cpus": os.cpu_count(),
        "cpu": names[0] if names else platform.machine(),
        "memory": memory, "scratch": words("findmnt", "-n", "-o", "FSTYPE",
                                           "-T", str(scratch)),
        "load": os.getloadavg()[0], "commit": commit,
        "root": os.geteuid() == 0,
        "versions": {p: words(p, "--version") for p in (
            "git", "node", "npm", "cargo", "python3", "fuse-overlayfs",
            "podman", "crun", "bwrap")}}


def results(bench, about):
    """The whole of results.json, with rows in the order of the lists."""
    groups = ("life", "cold", "first", "box", "container", "own", "work")
    order = {w.name: (groups.index(w.group), i)
             for i, w in enumerate(works.WORKS)}
    who = {c.name: i for i, c in enumerate(contenders.ALL)}
    sizes = ("small", "file", "root", "medium", "large")
    units = {w.name: w.unit for w in works.WORKS}
    rows = [{"tree": tree, "work": work, "contender": name,
             "unit": units[work], "values": [float(f"{v:.7g}") for v in got]}
            for (tree, work, name), got in sorted(
                bench.found.items(), key=lambda r: (
                    sizes.index(r[0][0]), order[r[0][1]], who[r[0][2]]))]
    about["load_after"] = os.getloadavg()[0]
    return {"v": 1, "mode": "quick" if bench.args.quick else "full",
            "machine": about, "results": rows,
            "failed": [{"tree": t, "work": w, "contender": c, "why": why}
                       for (t, w, c), why in bench.failed.items()],
            "left_out": [{"what": what, "why": why}
                         for what, why in bench.left_out]}


def grouped(data):
    """Rows by tree and work: {contender: row}."""
    found = {}
    for row in data["results"]:
        found.setdefault((row["tree"], row["work"]), {})[
            row["contender"]] = row
    return found


def base_of(row):
    """The contender that ratios of a work are of."""
    return next((b for b in BASES if b in row), next(iter(row)))


def ratio(row, name):
    """Of a contender's median to the base's; None without meaning."""
    base = stats.median(row[base_of(row)]["values"])
    return stats.median(row[name]["values"]) / base if base > 0 else None


def table(data):
    m = data["machine"]
    out = [f"{m['date'][:10]}, commit {m['commit']}, {m['cpus']} x {m['cpu']}, "
           f"{m['memory'] >> 30} GiB, Linux {m['kernel']}, {m['scratch']}; "
           f"load before {m['load']:.1f}. Medians [middle half] of the rounds "
           "in brackets; x is the ratio to the first of "
           f"{', '.join(BASES)} that has a figure.", ""]
    if data["mode"] == "full":
        out += [glance(data)]
    last = None
    for (tree, work), row in grouped(data).items():
        names = [c.name for c in contenders.ALL if any(
            r["tree"] == tree and r["contender"] == c.name
            for r in data["results"])]
        if tree != last:
            out += ["", f"### {tree}", "", "| work | " + " | ".join(names) +
                    " |", "|---" * (len(names) + 1) + "|"]
            last = tree
        out.append(f"| {work} | " + " | ".join(
            cell(data, tree, work, row, n) for n in names) + " |")
    failed = [f"- {f['tree']}, {f['work']}, {f['contender']}: {f['why']}"
              for f in data["failed"]]
    left = [f"- {n['what']}: {n['why']}" for n in data["left_out"]]
    for title, lines in (("Failed, hence no number:", failed),
                         ("Left out:", left)):
        if lines:
            out += ["", title, "", *lines]
    return "\n".join(out) + "\n"


def glance(data):
    """The table of the project's README: medians, the smallest in bold."""
    rows = grouped(data)
    out = ["| work | " + " | ".join(title for title, _ in COLUMNS) + " |",
           "|---" * (len(COLUMNS) + 1) + "|"]
    for key in (k for k in GLANCE if k in rows):
        row = rows[key]
        who = [next((n for n in names if n in row), None)
               for _, names in COLUMNS]
        least = min((stats.median(row[n]["values"]) for n in who if n),
                    default=None)
        cells = [stats.middle(row[n]["values"], row[n]["unit"]) if n else ""
                 for n in who]
        out.append(f"| {', '.join(key)} | " + " | ".join(
            f"**{c}**" if n and stats.median(row[n]["values"]) == least else c
            for n, c in zip(who, cells)) + " |")
    return "\n".join(out) + "\n"


def cell(data, tree, work, row, name):
    if name not in row:
        return "failed" if any(
            (f["tree"], f["work"], f["contender"]) == (tree, work, name)
            for f in data["failed"]) else "-"
    text = stats.figure(row[name]["values"], row[name]["unit"])
    text += f" ({len(row[name]['values'])})"
    times = ratio(row, name)
    return text if times is None else f"{text} {times:.2f}x"


def picture(folder):
    """By a Python that has matplotlib: that is often only the system's."""
    script = pathlib.Path(__file__).with_name("picture.py")
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run(
            [python, script, folder / "results.json", folder / "results.svg"],
            stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if done.returncode != 77:  # which means: there is no matplotlib
            return done.returncode == 0
    print("bench/run: no picture: needs python3-matplotlib", file=sys.stderr)
    return False


def write(folder, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    text = table(data)
    (folder / "results.md").write_text(text)
    print(text, end="")
    picture(folder)
