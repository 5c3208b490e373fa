# SPDX-License-Identifier: MIT
"""SIGKILL at any instant: nothing acknowledged is lost, nothing hangs.

Five environments at work: archives unpacked and committed, SQLite by
write-ahead log and by rollback, files with checked bytes, names that come and
go, and all of these at once. A round kills the server, the keeper or both, some
time in the work, in a compaction, an unmount or a mount; then everything must
have ended within seconds, come back at the next mount, and be what was noted
elsewhere (support/workload.py). COWFS_KILLS_SEED sets the seed,
COWFS_KILLS_ROUNDS the number of rounds.
"""
import json
import os
import random
import signal
import struct
import subprocess
import time

import mountpoint
import names
import pytest
from helpers import PYTHON, SUPPORT, wait_until
from look import checksum
from stamps import History

ROUNDS = int(os.environ.get("COWFS_KILLS_ROUNDS", 0))
KINDS = ["trees", "databases", "stamps", "names"]
ENVS = {"e-" + kind: [kind] for kind in KINDS} | {"e-all": KINDS}
HOWS = ["server", "keeper", "both", "compaction", "umount", "mount"]
ENDS_WITHIN = 5  # seconds, of every call and process


def make_archive(folder, rng):
    top = folder / "archive"
    for i in range(60):
        path = top / f"p{i % 7}/q{i % 3}/f{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(rng.choice([0, 90, 3000, 9000, 70000])))
    archive = folder / "archive.tar"
    subprocess.run(["tar", "--format=posix", "-cf", archive, "-C", top,
                    "."], check=True)
    return archive, checksum(str(top))


class Kills:
    def __init__(self, store, folder, rng):
        self.store, self.folder, self.rng = store, folder, rng
        self.archive, self.unpacked = make_archive(folder, rng)
        self.round, self.points, self.before = 0, {}, {}
        self.workers = {}

    # -- a round ------------------------------------------------------------
    def mount_all(self):
        for env in ENVS:
            self.points[env] = self.store.mount(env)

    def start(self, seconds):
        self.round += 1
        for env, kinds in ENVS.items():
            for kind in kinds:
                self.start_one(env, kind, seconds)

    def start_one(self, env, kind, seconds):
        where = f"r{self.round}/{kind}"
        self.store.sh(self.points[env], f"mkdir -p {where}")
        notes = self.folder / f"{env}.{kind}.{self.round}"
        notes.touch()
        argv = [PYTHON, SUPPORT / "workload.py", kind, notes, os.devnull,
                self.rng.randrange(10**6), seconds, self.archive]
        self.workers[env, kind] = self.store.start_inside(
            f"{self.points[env]}/{where}", argv, 120 + int(seconds))

    def finish_workers(self, limit, killed=False):
        """They end by themselves; returns what they say. Whoever touches a
        mapped page that a killed server cannot give gets SIGBUS."""
        end, said = time.monotonic() + limit, {}
        for key, worker in self.workers.items():
            left = max(0.1, end - time.monotonic())
            result = self.store.finish(worker, left)
            bus = killed and result.code == -signal.SIGBUS
            assert result.code == 0 or bus, (key, result)
            said[key] = "dead SIGBUS" if bus else result.out
        self.workers = {}
        return said

    def processes(self):
        """The server and its keeper."""
        server = self.store.server_pid()
        with open(f"/proc/{server}/status") as f:
            ppid = next(line for line in f if line.startswith("PPid:"))
        return server, int(ppid.split()[1])

    def kill(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def gone(self):
        wait_until(lambda: not mountpoint.processes_of(self.store.path),
                   ENDS_WITHIN, "server and keeper have ended")

    def kill_at_work(self, how):
        server, keeper = self.processes()
        victims = {"server": [server], "keeper": [keeper]}.get(
            how, [server, keeper])
        self.start(60)
        if how == "compaction":
            self.wait_for_compaction()
            victims = self.rng.choice([[server], [server, keeper]])
        else:
            time.sleep(self.rng.uniform(0.3, 2.5))
        self.kill(victims)
        said = self.finish_workers(ENDS_WITHIN, killed=True)
        assert all(text.startswith("dead ") for text in said.values()), said
        self.gone()

    def wait_for_compaction(self):
        """Until a journal is being rewritten; a round in which none is, is a
        kill like another."""
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for env in ENVS:
                if len(os.listdir(self.store.path / "envs" / env)) > 3:
                    return

    def kill_commands(self, how):
        """While commands unmount or mount all."""
        self.start(0.7)
        self.finish_workers(60)
        verbs = [["umount", env, "--keep"] for env in ENVS]
        victims = self.rng.choice([[0], [1], [0, 1]])
        if how == "mount":
            self.store.run("umount", "--all", "--keep")
            verbs = [["mount", env] for env in ENVS]
        pids = self.processes()
        children = [self.store.spawn(["cowfs", *verb]) for verb in verbs]
        time.sleep(self.rng.uniform(0, 0.06))
        self.kill([pids[i] for i in victims])
        for child in children:
            self.store.finish(child, ENDS_WITHIN * 2)
        # Commands start a new server when the old one is gone, and wait.
        wait_until(lambda: not {p for p in pids if mountpoint.alive(p)},
                   ENDS_WITHIN, "the old server has ended")

    def one(self, how):
        if how in ("umount", "mount"):
            self.kill_commands(how)
        else:
            self.kill_at_work(how)
            if self.rng.random() < 0.5:
                fixed = self.store.run("doctor", "--fix", expect=None)
                mine = [line for line in fixed.lines() if
                        str(self.store.folder) in line and
                        line.startswith("problem")]
                assert not mine, fixed
                assert not mountpoint.mounts_below(self.store.folder)
        self.mount_all()
        self.check()
        self.store.run("umount", "--all", "--keep")
        self.store.run("fsck")
        self.mount_all()

    # -- what is there --------------------------------------------------------
    def look(self, env, kind, round_):
        out = self.store.inside(f"{self.points[env]}/r{round_}/{kind}",
                                [PYTHON, SUPPORT / "look.py", kind]).out
        return json.loads(out)

    def check(self):
        now, wrong = {}, []
        for env, kinds in ENVS.items():
            for kind in kinds:
                key = env, kind
                found = now[key] = self.look(env, kind, self.round)
                text = getattr(self, "judge_" + kind)(found,
                                                      self.events(key))
                if text:
                    wrong.append(f"{env}/{kind}: {text}")
                if key in self.before and \
                        self.look(env, kind, self.round - 1) != \
                        self.before[key]:
                    wrong.append(f"{env}/{kind}: the last round's differs")
            self.store.sh(self.points[env], f"rm -rf r{self.round - 1}")
        self.before = now
        assert not wrong, "\n".join(wrong)

    def events(self, key):
        path = self.folder / f"{key[0]}.{key[1]}.{self.round}"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def judge_stamps(self, found, events):
        history = History()
        for what, _, value, *_ in events:
            if what == "begin":
                history.add(value)
        done = sum(what == "done" for what, *_ in events)
        return history.judge(found, done, history.count)

    def judge_names(self, found, events):
        return names.judge(found, events)

    def judge_counts(self, found, events, kinds):
        for kind in kinds:
            begun = [v[1] for what, _, v, *_ in events
                     if what == "begin" and v[0] == kind]
            last = events[-1]
            under_way = last[0] == "begin" and last[2][0] == kind
            least = len(begun) - under_way
            if not least <= found[kind] <= len(begun):
                return (f"{kind}: {found[kind]} are there, {least} were "
                        f"acknowledged, {len(begun)} begun")
        return found["wrong"]

    def judge_databases(self, found, events):
        return self.judge_counts(found, events, ["wal", "delete", "git"])

    def judge_trees(self, found, events):
        trees = [v[1] for what, _, v, *_ in events
                 if what == "begin" and v[0] == "tree"]
        if events and events[-1][0] == "begin" and \
                events[-1][2][0] == "tree":
            trees.pop()
        bad = [i for i in trees if found["trees"].get(f"t{i}") !=
               self.unpacked]
        if bad:
            return f"trees {bad} of {len(trees)} are others"
        return self.judge_counts(found, events, ["git"])


def check_kills(store, tmp_path, tree, hows):
    seed = int(os.environ.get("COWFS_KILLS_SEED", 0)) or \
        struct.unpack("<I", os.urandom(4))[0]
    print(f"COWFS_KILLS_SEED={seed}")
    kills = Kills(store, tmp_path, random.Random(seed))
    store.load(tree)
    for env in ENVS:
        kills.points[env] = store.mount("base", env)
    for how in hows:
        kills.one(how)


def test_nothing_is_lost(cowfs, tmp_path, tree):
    check_kills(cowfs, tmp_path, tree, HOWS[:ROUNDS or None])


@pytest.mark.long
def test_nothing_is_lost_in_thirty_rounds(cowfs, tmp_path, tree):
    rounds = ROUNDS or 30
    check_kills(cowfs, tmp_path, tree, (HOWS * rounds)[:rounds])
