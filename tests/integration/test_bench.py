# SPDX-License-Identifier: MIT
"""bench/run and bench/compare: what they say, and what they never say."""
import copy
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import mountpoint
import pytest
from conftest import have_fuse, skip_unless

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import macro.compare  # noqa: E402
import macro.report  # noqa: E402

WORKS = {"find, warm": .1, "create": .004, "untar": 2.0, "jest": 1.5}
NOISE = (1.0, .98, 1.03, .99, 1.01)


def results(**slower):
    """A run in which works took their usual time, or times as much."""
    return {"v": 1, "mode": "full", "results": [
        {"tree": "small", "work": work, "contender": who, "unit": "s",
         "values": [usual * noise * (slower.get(work.split(",")[0], 1)
                                     if who == "cowfs" else 1)
                    for noise in NOISE]}
        for work, usual in WORKS.items() for who in ("native", "cowfs")]}


@pytest.fixture
def compare(tmp_path, capsys):
    """Compares two runs; returns the exit code and lines."""
    def call(a, b, *args):
        for name, data in (("a", a), ("b", b)):
            text = data if isinstance(data, str) else json.dumps(data)
            (tmp_path / f"{name}.json").write_text(text)
        try:
            code = macro.compare.main("", [
                str(tmp_path / "a.json"), str(tmp_path / "b.json"), *args])
        except SystemExit as e:
            code = e.code
        out, err = capsys.readouterr()
        return code, out.splitlines(), err
    return call


def test_the_program(tmp_path):
    for name, data in (("a", results()), ("b", results(untar=1.3))):
        (tmp_path / name).write_text(json.dumps(data))
    done = subprocess.run([mountpoint.PYTHON, BENCH / "compare",
                           tmp_path / "a", tmp_path / "b"],
                          stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stdout.count("\n") == 1


def test_the_tables_are_of_the_results_beside_them():
    """README's and results.md's, of the run that is kept."""
    kept = BENCH / "results"
    data = json.loads((kept / "results.json").read_text())
    assert data["mode"] == "full"
    failed = {(f["tree"], f["work"], f["contender"]) for f in data["failed"]}
    for tree, work, who in failed:
        assert who != "cowfs" or (tree, work, "native") in failed
    assert (kept / "results.md").read_text() == macro.report.table(data)
    readme = (BENCH.parent / "README.md").read_text()
    assert macro.report.glance(data) in readme
    assert data["machine"]["date"][:10] in readme


def test_a_run_and_itself(compare):
    assert compare(results(), results()) == (0, [], "")


def test_a_planted_slow_down_is_all_that_is_told(compare):
    code, lines, _ = compare(results(), results(untar=1.3))
    assert code == 1 and len(lines) == 1
    assert lines[0].startswith("worse: small, untar, cowfs: 2 s [")
    assert lines[0].endswith("+30%")


def test_better_is_told_and_is_no_regression(compare):
    code, lines, _ = compare(results(), results(jest=.5))
    assert code == 0
    assert [line.split(": ")[:2] for line in lines] == [
        ["better", "small, jest, cowfs"]]


@pytest.mark.parametrize("threshold, told", [
    ("40%", 0), ("0.4", 0), ("20%", 1), ("5%", 1)])
def test_threshold(compare, threshold, told):
    code, lines, _ = compare(results(), results(create=1.3), "--threshold",
                             threshold)
    assert (code, len(lines)) == (told, told)


def test_noise_is_not_told(compare):
    """Medians that differ by 30 %, of values that spread more."""
    a, b = results(), results()
    a["results"][0]["values"] = [.5, .8, 1.0, 1.4, 2.0]
    b["results"][0]["values"] = [.6, .9, 1.3, 1.5, 1.9]
    assert compare(a, b) == (0, [], "")


def test_too_few_values_are_not_judged(compare):
    a, b = results(), results(untar=2)
    for row in b["results"]:
        row["values"] = row["values"][:2]
    code, lines, err = compare(a, b)
    assert (code, lines) == (0, [])
    assert "8 not judged" in err


def test_what_only_one_of_them_has(compare):
    a, b = results(), results()
    gone, b["results"][0] = a["results"][0], copy.deepcopy(b["results"][0])
    b["results"][0]["work"] = "new"
    code, lines, _ = compare(a, b)
    assert code == 0 and lines == [
        f"only in A: small, {gone['work']}, native",
        "only in B: small, new, native"]


def test_one_contender(compare):
    b = results(untar=1.3)
    assert compare(results(), b, "--contender", "native")[0] == 0
    assert compare(results(), b, "--contender", "cowfs")[0] == 1


@pytest.mark.parametrize("wrong", [
    "", "{", "[]", "{}", '{"v": 2, "mode": "full", "results": []}',
    '{"v": 1, "mode": "quick", "results": []}',
    '{"v": 1, "mode": "full", "results": [{"tree": "small"}]}',
    '{"v": 1, "mode": "full", "results": 3}'])
def test_what_is_no_results(compare, wrong):
    code, lines, err = compare(results(), wrong)
    assert (code, lines) == (2, [])
    assert err.startswith("compare: ") and "Traceback" not in err


@pytest.mark.parametrize("wrong", ["x", "-1", "0", "5%%"])
def test_a_wrong_threshold(compare, wrong):
    code, lines, err = compare(results(), results(), "--threshold=" + wrong)
    assert (code, lines) == (2, []) and "--threshold" in err


# -- bench/run ------------------------------------------------------------
# With the label tree, for it runs in CI once, and not under sanitizers. A small
# generated tree, and works that take no time.
SHORT = ("--quick", "--trees", "small", "--rounds", "1", "--large", "300",
         "--only", "find, warm|^create$|20 at once")


class Run:
    """bench/run on a machine that has git and what is asked for, no npm."""

    def __init__(self, tmp_path):
        self.out, self.bin = tmp_path / "out", tmp_path / "bin"
        self.scratch = tmp_path / "scratch"
        self.env = mountpoint.environment()
        self.env["TMPDIR"] = str(self.scratch)
        for folder in (self.bin, self.scratch):
            folder.mkdir()

    def fake(self, name, script):
        (self.bin / name).write_text("#!/bin/sh\n" + script)
        (self.bin / name).chmod(0o755)

    def start(self, *args):
        return subprocess.Popen(
            [mountpoint.PYTHON, BENCH / "run", *SHORT, "-o", self.out, *args],
            env=self.env, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, *args, code=0):
        child = self.start(*args)
        self.stdout, self.err = child.communicate(timeout=240)
        assert child.returncode == code, self.err
        self.nothing_left()
        self.data = json.loads((self.out / "results.json").read_text())
        return self.data

    def nothing_left(self):
        assert os.listdir(self.scratch) == []
        assert mountpoint.mounts_below(self.scratch) == []
        loops = subprocess.run(["losetup", "-n", "-l", "-O", "BACK-FILE"],
                               capture_output=True, text=True).stdout
        assert str(self.scratch) not in loops
        assert mountpoint.processes_of(self.scratch) == []

    def numbers(self, contender):
        return {r["work"] for r in self.data["results"]
                if r["contender"] == contender}

    def why(self, contender):
        return " ".join(n["why"] for n in self.data["left_out"]
                        if n["what"] == contender)


@pytest.fixture(scope="module")
def programs():
    """A folder with all programs but some."""
    with tempfile.TemporaryDirectory(prefix="cowfs-t-") as folder:
        for top in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
            for name in set(os.listdir(top)) - set(os.listdir(folder)):
                if name not in ("npm", "cargo", "podman", "mkfs.xfs"):
                    os.symlink(f"{top}/{name}", f"{folder}/{name}")
        yield folder


@pytest.fixture
def run(tmp_path, as_root, programs):
    skip_unless(have_fuse(), "fuse")
    r = Run(tmp_path)
    r.env["PATH"] = f"{r.bin}:{programs}"
    return r


@pytest.mark.long
def test_a_machine_that_lacks_things(run):
    data = run("--contenders", "cowfs|native|cp|^overlayfs|podman|btrfs s")
    assert run.numbers("cowfs") == {"find, warm", "create", "20 at once"}
    assert run.numbers("native") == {"find, warm"}
    assert run.numbers("cp -a") == {"create", "20 at once"}
    assert run.numbers("btrfs snapshot") == {"create", "20 at once"}
    assert run.why("podman") == "left out: there is no podman"
    assert "without jest, pytest, cargo" in run.why("small tree")
    assert data["failed"] == []
    assert all(v > 0 for r in data["results"] for v in r["values"])
    table = (run.out / "results.md").read_text()
    assert run.stdout == table and "| find, warm | " in table
    assert "podman: left out: there is no podman" in table
    picture = (run.out / "results.svg").read_text()
    assert picture.count("<svg") == 1


@pytest.mark.tree
def test_a_wrong_result_gives_no_number(run):
    """A find that finds one more."""
    run.fake("find", '/usr/bin/find "$@"; echo one-more\n')
    data = run("--contenders", "native", "--only", "find, warm")
    assert data["results"] == []
    (failed,) = data["failed"]
    assert (failed["work"], failed["contender"]) == ("find, warm", "native")
    told, right = re.fullmatch(r"wrong: result: '(\d+)' and not '(\d+)'",
                               failed["why"]).groups()
    assert int(told) == int(right) + 1 and int(right) > 300
    assert "FAILED: small, find, warm, native" in run.err


@pytest.mark.long
def test_one_that_fails_is_told_and_the_others_go_on(run):
    run.fake("fuse-overlayfs", "exit 3\n")
    data = run("--contenders", "fuse|cowfs")
    assert run.numbers("fuse-overlayfs") == set()
    assert run.numbers("cowfs") == {"find, warm", "create", "20 at once"}
    assert {f["contender"] for f in data["failed"]} == {"fuse-overlayfs"}


@pytest.mark.long
def test_one_that_hangs_is_cleared_away(run):
    """It mounts, and then its server stops answering."""
    run.fake("fuse-overlayfs",
             '/usr/bin/fuse-overlayfs "$@"\n'
             'for p in /proc/[0-9]*; do\n'
             'if [ "$(readlink $p/exe)" = /usr/bin/fuse-overlayfs ]; then\n'
             'kill -STOP ${p#/proc/}; fi; done\n')
    data = run("--contenders", "fuse|cowfs", "--limit", "5")
    assert run.numbers("fuse-overlayfs") == set()
    assert "hung; left out from there on" in run.why("fuse-overlayfs")
    assert run.numbers("cowfs") == {"find, warm", "create", "20 at once"}
    assert "hangs: not done after 5 s" in data["failed"][0]["why"]


@pytest.mark.long
def test_a_full_disk(run):
    """Copies do not fit; what needs no room is measured."""
    run.scratch.rmdir()
    run.scratch.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs",
                    run.scratch], check=True)
    try:
        child = run.start("--contenders", "cp|^overlayfs")
        out, err = child.communicate(timeout=240)
        assert child.returncode == 0, err
        assert os.listdir(run.scratch) == []
    finally:
        subprocess.run(["umount", run.scratch], check=True)
    run.data = json.loads((run.out / "results.json").read_text())
    assert "20 at once" not in run.numbers("cp -a")
    assert "20 at once" in run.numbers("overlayfs")
    assert any("No space left" in f["why"] for f in run.data["failed"])


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(run, number):
    """While a find that never ends looks at a mount."""
    run.fake("find", 'echo >"$TMP/../../../begun"; exec sleep 600\n')
    child = run.start("--contenders", "cowfs|^overlayfs|btrfs s", "--only",
                      "find, warm")
    begun = run.scratch / "begun"
    mountpoint.wait_until(begun.exists, 120, "find has begun")
    child.send_signal(number)
    _, err = child.communicate(timeout=90)
    begun.unlink()
    assert child.returncode == 130, err
    assert "interrupted; nothing is written" in err
    assert not run.out.exists()
    run.nothing_left()


@pytest.mark.long
def test_killed(run):
    """Even then the kernel ends what it started; a folder is left."""
    run.fake("find", 'echo >"$TMP/../../../begun"; exec sleep 600\n')
    child = run.start("--contenders", "cowfs", "--only", "find, warm")
    begun = run.scratch / "begun"
    mountpoint.wait_until(begun.exists, 120, "find has begun")
    child.kill()
    child.communicate(timeout=60)
    mountpoint.wait_until(
        lambda: not mountpoint.processes_of(run.scratch), 30,
        "the run has ended")
    assert mountpoint.mounts_below(run.scratch) == []


@pytest.mark.tree
def test_quick(tmp_path, as_root):
    """Everything of a quick run works here; what a machine may lack is told.
    In memory: it is the harness that is tested."""
    skip_unless(have_fuse(), "fuse")
    r = Run(tmp_path)
    r.env = mountpoint.environment()
    memory = shutil.disk_usage("/dev/shm").free > 6 << 30
    r.scratch = pathlib.Path("/dev/shm" if memory else r.scratch)
    child = subprocess.run(
        [mountpoint.PYTHON, BENCH / "run", "--quick", "--scratch", r.scratch,
         "-o", r.out], env=r.env, stdin=subprocess.DEVNULL, text=True,
        capture_output=True, timeout=300)
    assert child.returncode == 0, child.stderr
    r.data = json.loads((r.out / "results.json").read_text())
    assert r.data["failed"] == []
    assert {"create", "destroy", "20 at once", "disk used by 20",
            "cold start to the first green test", "find, warm", "untar",
            "1 byte in a huge file", "container start to first output",
            } <= r.numbers("cowfs")
    assert {"find, warm", "untar"} <= r.numbers("native")
    assert (r.out / "results.svg").exists()
