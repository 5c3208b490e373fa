# SPDX-License-Identifier: MIT
"""rounds.py - who measures what, and when: the contenders take turns, and the
first one changes, so that a slow minute of the machine slows all of them.

What fails has no number. A contender that hangs is cleared away and is left
out from then on; the run goes on.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

from macro import contenders, stats, trees, works
from macro import durable, life  # noqa: F401, their works are in the list
from macro.child import Failed, Hangs, lacking
from macro.disks import Disk
from macro.works import Place

# Of a full and of a quick run. SLOW: seconds, of longer works ENOUGH rounds are
# enough; ENDLESS: seconds, of longer ones a single one, and of those that take
# twice as long with what they need; MOST: seconds that 20 environments may be
# expected to take; BUDGET: seconds after which no further work is begun.
SLOW, ENOUGH, ENDLESS, MOST, BUDGET = range(5)
FULL = (2, 3, 30, 60, 5000)
QUICK = (1, 1, 30, 10, 120)
ROOM = (40 << 30, 4 << 30)  # bytes of the disk for a full and a quick run
# Seconds; what is shorter is done so often in a round, unless that takes long.
SHORT, OFTEN, LONG = .2, 3, 5


class Bench:
    """The run: its folder, what was found, what was left out, what failed."""

    def __init__(self, args, folder, env):
        self.args, self.env = args, dict(env)
        self.limit, self.null = args.limit, args.null
        self.images = self.scratch = folder
        st = os.statvfs(folder)
        self.room = st.f_bavail * st.f_frsize
        if os.geteuid() == 0 and not args.in_place:
            # Like the other file systems that take part: in a file.
            self.scratch = folder / "disk"
            Disk("ext4", folder / "ext4.img", self.scratch,
                 min(self.room * 3 // 4, ROOM[args.quick]), reserve=True)
        self.found = {}     # (tree, work, contender): values
        self.left_out = []  # (who, why)
        self.failed = {}    # (tree, work, contender): why
        self.skip = set()   # of the same keys: would take too long
        self.whole = {}     # of the same keys: seconds, with what a work needs
        self.gone = set()   # names of contenders that hung
        self.tmp = self.scratch / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        self.env.update(
            TMP=str(self.tmp), TMPDIR=str(self.tmp), LC_ALL="C.UTF-8",
            WHEELS=str(self.tmp / "wheels"))
        self.contenders = []
        self.began = time.monotonic()
        self.mode = QUICK if args.quick else FULL

    def note(self, who, why):
        self.left_out.append((who, self.nameless(why)))
        self.say(f"{who}: {why}")

    def say(self, text):
        print(f"bench/run: {text}", file=sys.stderr, flush=True)

    # -- who --------------------------------------------------------------
    def start(self):
        for kind in contenders.ALL:
            if not chosen(kind.name, self.args.contenders) or (
                    kind is contenders.NoJournal and
                    not self.args.journal_off):
                continue
            why = kind.lacks(self)
            if why:
                self.note(kind.name, f"left out: {why}")
                continue
            try:
                self.contenders.append(kind(self))
            except (OSError, subprocess.SubprocessError) as e:
                self.note(kind.name, f"left out: {e}")

    def close(self):
        for contender in self.contenders:
            try:
                contender.close()
            except Exception as e:  # the others are closed all the same
                self.note(contender.name, f"at the end: {e}")

    # -- what -------------------------------------------------------------
    def works_of(self, tree, contender):
        return [w for w in works.WORKS
                if w.suits(tree, contender, self.args.quick) and
                chosen(w.name, self.args.only)]

    def measure(self, name, rounds, part):
        """All rounds with a tree; no further one after a part of the time."""
        if self.late():
            self.note(f"{name} tree", "left out: no time is left")
            return
        tree = trees.make(name, self.scratch, self.args, self.note)
        if not tree:
            return
        self.say(f"{name}: {tree.entries:,} names, {tree.bytes >> 20} MiB")
        self.inputs(tree)
        ready = [c for c in self.contenders if c.suits(tree) and
                 self.works_of(tree, c) and
                 self.prepared(tree, c)]
        for i in range(rounds):
            if self.late(part if i else 1):
                self.note(f"{name} tree", f"{i} of {rounds} rounds: no time "
                          "is left")
                break
            k = (i - 1) % max(len(ready), 1)  # cowfs, the last, is first
            for contender in ready[k:] + ready[:k]:
                if contender.name not in self.gone:
                    self.turn(tree, contender, i)
            self.say(f"{name}: round {i + 1} of {rounds}, "
                     f"{time.monotonic() - self.began:.0f} s")
        for contender in ready:
            self.guarded(tree, contender, "the end", contender.drop, tree)
        subprocess.run(["rm", "-rf", tree.origin])

    def inputs(self, tree):
        """What works need beside the tree."""
        if "root" in tree.has and not lacking("crun"):
            life.write_config(self.tmp)
        if "shop" in tree.has:
            self.wheels()

    def wheels(self):
        """pytest for a venv that is made anew; kept beside the projects."""
        cache = trees.project.cache_folder() / "wheels"
        if not list(cache.glob("pytest-*")):
            done = subprocess.run(
                [trees.project.PYTHON, "-m", "pip", "download", "-q", "-d",
                 cache, trees.project.PYTEST], stdin=subprocess.DEVNULL,
                stdout=sys.stderr)
            if done.returncode:
                self.note("git worktree", "cold start fails: no wheels")
        self.env["WHEELS"] = str(cache)
        for contender in self.contenders:
            contender.env["WHEELS"] = str(cache)

    def prepared(self, tree, contender):
        if not self.guarded(tree, contender, "preparing", contender.prepare,
                            tree):
            return False
        (contender.top / "e").mkdir(exist_ok=True)
        return True

    def guarded(self, tree, contender, what, function, *args):
        """Calls it; returns whether it went well. Else it is noted, and a
        contender that hangs is out."""
        if contender.name in self.gone:
            return False
        try:
            function(*args)
            return True
        except Hangs as e:
            self.fail(tree, what, contender, f"hangs: {e}")
            self.clear(contender)
        except (Failed, OSError, AssertionError,
                subprocess.SubprocessError) as e:
            self.fail(tree, what, contender, str(e))
        return False

    def fail(self, tree, what, contender, why):
        key = (tree.name, what, contender.name)
        self.failed[key] = self.nameless(" ".join(why.split()))[-300:]
        self.found.pop(key, None)
        self.say(f"FAILED: {', '.join(key)}: {self.failed[key]}")

    def nameless(self, text):
        """Without the places of this machine: results are published."""
        for place, word in ((self.images, "SCRATCH"),
                            (pathlib.Path.home(), "~")):
            text = text.replace(f"{place}/", f"{word}/")
        return re.sub(r"(https?://)[^/\s]+", r"\1HOST", text)

    def clear(self, contender):
        """It hung: whatever it has is taken away by force."""
        self.gone.add(contender.name)
        self.note(contender.name, "hung; left out from there on")
        try:
            contender.recover()
        except (OSError, subprocess.SubprocessError) as e:
            self.note(contender.name, f"cannot be cleared away: {e}")

    def late(self, part=1):
        return time.monotonic() - self.began > part * (
            self.args.budget or self.mode[BUDGET])

    # -- one turn of one contender ----------------------------------------
    def turn(self, tree, contender, i):
        todo = self.works_of(tree, contender)
        for w in todo:
            if w.group != "work":
                self.take(tree, w, contender, f"{tree.name}{i}-{w.slug}")
        inside = [w for w in todo if w.group == "work" and
                  self.worth(tree, w, contender)]
        if not inside or contender.name in self.gone or self.late():
            return
        while inside:
            inside = self.work_in(tree, contender, inside,
                                  f"{tree.name}{i}-{inside[0].slug}")

    def work_in(self, tree, contender, todo, name):
        """Works in one environment. One that fails leaves nobody knows what:
        returns those that have to be done in another."""
        up = self.guarded(tree, contender, "the environment",
                          contender.up, tree, name)
        left = list(todo) if up else []
        while left and self.take(tree, left.pop(0), contender, name):
            pass
        self.guarded(tree, contender, "the environment's end",
                     contender.down, tree, name)
        return left

    def worth(self, tree, w, contender):
        """What failed once is not tried again; what is slow not so often."""
        key = (tree.name, w.name, contender.name)
        if key in self.failed or key in self.skip:
            return False
        values = self.found.get(key, [])
        if values and (w.unit == "B" or  # they are the same each time
                       min(values) > self.mode[ENDLESS] or
                       self.whole[key] > 2 * self.mode[ENDLESS]):
            return False
        if len(values) >= self.mode[ENOUGH] and min(values) > self.mode[SLOW]:
            return False
        if w.name.startswith(("20 at once", "disk used by 20")):
            one = self.found.get((tree.name, "create", contender.name))
            if one and min(one) * life.MANY > self.mode[MOST]:
                self.note(contender.name, f"{w.name}, {tree.name}: not tried,"
                          f" one takes {min(one):.1f} s")
                self.skip.add(key)
                return False
        return True

    def take(self, tree, w, contender, name):
        """Returns whether nothing failed."""
        if contender.name in self.gone or self.late() or \
                not self.worth(tree, w, contender):
            return True
        place = Place(contender, tree, name)
        key = (tree.name, w.name, contender.name)
        values, began = [], time.monotonic()
        for _ in range(OFTEN if w.group != "work" and w.unit == "s" else 1):
            if not self.guarded(tree, contender, w.name,
                                lambda: values.append(w.function(place))):
                return False
            self.whole[key] = time.monotonic() - began
            if values[-1] > SHORT or self.whole[key] > LONG:
                break
        self.found.setdefault(key, []).extend(values)
        self.say(f"{', '.join(key)}: {stats.figure(values, w.unit)}, in all "
                 f"{self.whole[key]:.0f} s")
        return True


def chosen(name, expression):
    return not expression or re.search(expression, name) is not None
