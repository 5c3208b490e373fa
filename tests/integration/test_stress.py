# SPDX-License-Identifier: MIT
"""Programs that others wrote to find faults: stress-ng, fio, PostgreSQL.

All are long. COWFS_STRESS_SECONDS is how long stress-ng and fio work (300).
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import skip_unless
from helpers import wait_until

SECONDS = int(os.environ.get("COWFS_STRESS_SECONDS", 300))
# What works elsewhere than in the current folder, or on the whole machine.
ELSEWHERE = ("bind-mount", "binderfs", "chroot", "dev", "eventfd", "fanotify",
             "io", "ioprio", "loop", "null", "procfs", "quota", "ramfs",
             "sysfs", "umount", "zero")


@pytest.fixture
def empty(cowfs, tmp_path):
    """A mount of a snapshot with one file."""
    top = tmp_path / "empty"
    top.mkdir()
    (top / "file").write_text("x")
    cowfs.load(top)
    cowfs.mount("base", "e")
    return cowfs


def point_of(store):
    return store.mount("e")


def stressors():
    text = subprocess.run(["stress-ng", "--class", "filesystem?"],
                          capture_output=True, text=True)
    names = (text.stdout + text.stderr).split(":", 1)[1].split()
    return [n for n in names if n not in ELSEWHERE]


@pytest.mark.long
def test_stress_ng(empty):
    skip_unless(shutil.which("stress-ng"), "stress-ng")
    names = stressors()
    assert len(names) > 30
    faults = []
    for name in names:
        r = empty.inside(
            point_of(empty),
            ["stress-ng", f"--{name}", "2", "--verify", "--timeout",
             f"{max(1, SECONDS // len(names))}s", "--temp-path", "."],
            limit=SECONDS + 120, expect=None)
        text = r.out + r.err
        # 3 and 4: this machine or file system does not have it.
        if r.code not in (0, 3, 4) or re.search(r"\bfail: ", text):
            faults.append(text[-1500:])
    assert not faults, "\n".join(faults)
    assert empty.sh(point_of(empty), "ls").out == "file\n"
    empty.run("umount", "e", "--keep")
    empty.run("fsck")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["psync", "mmap"])
def test_fio_verifies(empty, engine):
    skip_unless(shutil.which("fio"), "fio")
    r = empty.inside(
        point_of(empty),
        ["fio", "--name=v", f"--ioengine={engine}", "--rw=randwrite",
         "--bsrange=4k-128k", "--size=48m", "--numjobs=2", "--fsync=64",
         "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=512",
         "--time_based", f"--runtime={SECONDS // 2}", "--output-format=json"],
        limit=SECONDS * 2 + 120)
    jobs = json.loads(r.out[r.out.index("{"):])["jobs"]
    assert all(job["error"] == 0 for job in jobs)
    assert sum(job["write"]["total_ios"] for job in jobs) > 1000


class Postgres:
    """A cluster in the mount; its sockets and log are outside."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder
        found = glob.glob("/usr/lib/postgresql/*/bin")
        skip_unless(found, "postgresql")
        self.bin = sorted(found)[-1]
        folder.mkdir()
        folder.chmod(0o777)

    def as_user(self, program, *args):
        """PostgreSQL refuses to run as root."""
        user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup",
                "--clear-groups"] if os.geteuid() == 0 else []
        return [*user, f"{self.bin}/{program}", *args]

    def run(self, program, *args, expect=0, limit=120):
        return self.store.inside(point_of(self.store),
                                 self.as_user(program, *args), limit=limit,
                                 expect=expect)

    def make(self):
        self.store.sh(point_of(self.store),
                      "mkdir pg; chown nobody:nogroup pg; chmod 700 pg")
        self.run("initdb", "-A", "trust", "-E", "UTF8", "--no-locale", "-k",
                 "-D", "pg")

    def start(self):
        """As a child that is waited for: a dead postmaster whose parent
        does not look holds its lock."""
        with open(self.folder / "log", "ab") as log:
            self.main = self.store.start_inside(
                point_of(self.store),
                self.as_user("postgres", "-D", "pg", "-k", self.folder, "-c",
                             "listen_addresses="),
                limit=600, stdout=log, stderr=log)
        wait_until(self.is_ready, 60, "PostgreSQL is ready")

    def is_ready(self):
        assert self.main.poll() is None, self.log()
        ready = self.store.spawn(
            self.as_user("pg_isready", "-q", "-h", str(self.folder)))
        return self.store.finish(ready, 30).code == 0

    def log(self):
        return (self.folder / "log").read_text()[-3000:]

    def sql(self, text):
        return self.run("psql", "-h", self.folder, "-d", "postgres", "-Atc",
                        text).out.split()

    def client(self, n):
        """Inserts until the server is dead; says each number that has
        been committed."""
        script = ("i=0; while :; do i=$((i + 1)); echo \"insert into t values"
                  f"({n}, $i) returning i;\"; done | "
                  f"exec {self.bin}/psql -h {self.folder} -d postgres -Atq "
                  "-v ON_ERROR_STOP=1")
        out = open(self.folder / f"client{n}", "wb")
        user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup",
                "--clear-groups"] if os.geteuid() == 0 else []
        return self.store.spawn([*user, "sh", "-c", script], stdout=out)

    def stop(self, how):
        """The parent is timeout; it ends with its child."""
        with open(f"/proc/{self.main.pid}/task/{self.main.pid}/children") as f:
            for pid in f.read().split():
                os.kill(int(pid), how)
        self.store.finish(self.main, 60)


@pytest.fixture
def postgres(empty, tmp_path):
    pg = Postgres(empty, tmp_path / "pg")
    pg.make()
    pg.start()
    yield pg
    if pg.main.poll() is None:
        pg.stop(signal.SIGKILL)


def die_under_load(store, pg, first):
    """Four clients from number first on and pgbench; returns what was
    committed for each client."""
    clients = [pg.client(first + n) for n in range(4)]
    bench = store.spawn(pg.as_user(
        "pgbench", "-n", "-h", str(pg.folder), "-c", "4", "-T", "60",
        "postgres"), cwd="/")
    time.sleep(4)
    store.kill_server()
    for child in [*clients, bench]:
        store.finish(child, 30)
    pg.stop(signal.SIGKILL)
    return {n: (pg.folder / f"client{n}").read_text().split()
            for n in range(first, first + 4)}


@pytest.mark.long
def test_postgresql_recovers(empty, postgres):
    """The server dies five times under pgbench and four writers."""
    pg = postgres
    pg.sql("create table t(n int, i int, primary key(n, i))")
    pg.run("pgbench", "-h", str(pg.folder), "-i", "-s", "5", "-q", "postgres")
    for round_ in range(5):
        committed = die_under_load(empty, pg, round_ * 4)
        pg.start()
        for n, rows in committed.items():
            assert len(rows) > 20, f"only {len(rows)} rows"
            there = set(pg.sql(f"select i from t where n = {n}"))
            assert set(rows) <= there, sorted(set(rows) - there)[:5]
        sums = pg.sql("select (select sum(abalance) from pgbench_accounts),"
                      "(select sum(tbalance) from pgbench_tellers),"
                      "(select sum(bbalance) from pgbench_branches),"
                      "(select coalesce(sum(delta), 0) from pgbench_history)")
        assert len(set(sums[0].split("|"))) == 1, sums
    pg.stop(signal.SIGINT)
    pg.run("pg_checksums", "--check", "-D", "pg")
