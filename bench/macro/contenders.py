# SPDX-License-Identifier: MIT
"""contenders.py - ways to get a folder of one's own that has a tree in it.

A contender is what its scripts are (child.py has their words): `create` makes
the environment AT of the tree TREE, `destroy` ends it. Both may use TOP, a
folder of the contender's own, ID, the name of the environment, and BASE, what
`prepare` made of the tree. takes: the groups of works that it takes part in;
lacks(): why this machine cannot have it, None when it can.
"""
import os
import subprocess

import mountpoint

from macro import child
from macro.disks import Disk


class Contender:
    takes = {"work", "life", "cold"}
    quick = {"work", "life", "cold", "container", "box"}  # of those
    deps = ""   # what a fresh environment needs before a test can run
    big = True  # can have the large tree and the 1 GiB file
    works_in = None  # trees of its works, all when None
    without = ()  # names of works
    ended = None  # what destroy took, of the last create
    # Whether it has all: a look at it is enough, find is a work of its own.
    whole = 'same "$(ls -A "$AT" | wc -l)" "$(ls -A "$TREE" | wc -l)" names'

    def __init__(self, bench):
        self.bench = bench
        self.top = bench.scratch / "c" / self.name.replace(" ", "-")
        self.top.mkdir(parents=True)
        self.env = dict(bench.env)

    @classmethod
    def lacks(cls, bench):
        return None

    def suits(self, tree):
        return self.big or not tree.has & {"huge", "root"} and \
            tree.name != "large"

    def prepare(self, tree):
        """Once, before the rounds with a tree."""

    def drop(self, tree):
        """After them."""

    def base(self, tree):
        return self.top / f"base-{tree.name}"

    def at(self, name):
        return self.top / "e" / name

    def variables(self, tree, name):
        return dict(self.env, TOP=str(self.top), ID=name,
                    AT=str(self.at(name)), TREE=str(tree.origin),
                    BASE=str(self.base(tree)), NAME=tree.name,
                    PROBE=tree.probe, COUNT=str(tree.entries))

    def up(self, tree, name):
        child.run(self.create + '\n[ -e "$AT/$PROBE" ]',
                  self.variables(tree, name), self.bench.limit)

    def down(self, tree, name):
        child.run(self.destroy, self.variables(tree, name), self.bench.limit)

    # Whether a first test begins with the environment.
    create_is_first = True

    # How a script is run in the environment, as users of it would.
    enter = 'cd "$AT"; bash -euc "$SCRIPT"'

    def used(self):
        """Bytes on disk, of everything but the origin."""
        out = child.run('du -s -x -B1 "$TOP" | cut -f1', dict(
            self.env, TOP=str(self.top)), self.bench.limit)
        return int(out)

    def recover(self):
        """After something hung: nothing of it may run or be mounted. An
        umount would wait as long as it is let."""
        for point in mountpoint.mounts_below(self.top):
            child.abort(point)
        child.remove(self.top)

    def close(self):
        child.remove(self.top)


class Copy(Contender):
    """Works in a copy are those of the native directory."""
    name = "cp -a"
    takes = {"life", "cold", "container"}
    create = 'cp -a --reflink=never "$TREE" "$AT"'
    destroy = 'rm -rf "$AT"'


class Native(Copy):
    """A directory on the disk at hand: what all the others are measured by.
    It has no life: somebody made it before."""
    name = "native"
    takes = {"work", "box", "first"}
    create_is_first = False

    def at(self, name):
        """Works only look at the large tree, and a copy takes minutes."""
        return self.bench.scratch / "large" if name.startswith("large") \
            else super().at(name)

    def up(self, tree, name):
        if tree.name != "large":
            super().up(tree, name)

    def down(self, tree, name):
        if tree.name != "large":
            super().down(tree, name)


class OnDisk(Contender):
    """On a file system in a file, which has the base."""
    kind = None

    @classmethod
    def lacks(cls, bench):
        if os.geteuid():
            return "needs root"
        return child.lacking(f"mkfs.{cls.kind}", "losetup") or \
            Disk.lacks(cls.kind)

    def __init__(self, bench):
        super().__init__(bench)
        image = bench.images / f"{self.top.name}.img"
        self.disk = Disk(self.kind, image, self.top, bench.room // 2)

    def used(self):
        return self.disk.used()

    def prepare(self, tree):
        child.run('cp -a "$TREE" "$BASE"; sync -f "$BASE"',
                  self.variables(tree, ""), self.bench.limit)

    def drop(self, tree):
        child.run('rm -rf "$BASE"', self.variables(tree, ""),
                  self.bench.limit)

    def recover(self):
        super().recover()
        self.disk.mount()

    def close(self):
        super().close()
        self.disk.close()


class XfsReflink(OnDisk):
    name, kind = "xfs reflink", "xfs"
    create = 'cp -a --reflink=always "$BASE" "$AT"'
    destroy = 'rm -rf "$AT"'
    takes = {"work", "life", "cold", "container"}
    works_in = ("file",)
    quick = set()

    def suits(self, tree):
        """As cp -a, for each file; with 1,000,000 it would be minutes."""
        return tree.name != "large" and super().suits(tree)


class BtrfsReflink(XfsReflink):
    """Works in it are those of btrfs' snapshot."""
    name, kind = "btrfs reflink", "btrfs"
    takes = {"life"}
    big = False


class BtrfsSnapshot(OnDisk):
    name, kind = "btrfs snapshot", "btrfs"
    create = 'btrfs -q subvolume snapshot "$BASE" "$AT"'
    destroy = 'btrfs -q subvolume delete "$AT"'
    takes = {"work", "life", "cold", "container"}
    quick = {"life", "container"}

    def used(self):
        child.run('btrfs -q subvolume sync "$TOP"', dict(
            self.env, TOP=str(self.top)), self.bench.limit)
        return super().used()

    def prepare(self, tree):
        child.run('btrfs -q subvolume create "$BASE"; '
                  'cp -a "$TREE/." "$BASE"; sync -f "$BASE"',
                  self.variables(tree, ""), self.bench.limit)

    def drop(self, tree):
        child.run('btrfs -q subvolume delete "$BASE"',
                  self.variables(tree, ""), self.bench.limit)


class Worktree(Contender):
    """What git does not have is installed again: node_modules by npm from a
    warm cache, for a first test also a venv and a target."""
    name = "git worktree"
    takes = {"life", "cold"}
    quick = {"life"}
    whole = 'same "$(git -C "$AT" status --porcelain)" "" "git status"'
    install = ("npm ci --offline --legacy-peer-deps --ignore-scripts "
               '--logs-dir "$TMP/npm-logs"')  # not into the origin's cache
    create = f"""
        git -C "$BASE" worktree add -q --detach "$AT"
        if [ -e "$AT/package.json" ]; then
            cd "$AT"; {install} >/dev/null
        fi
        if [ -e "$AT/db/package.json" ]; then
            cd db; {install} --cache "$TREE/vendor/npm" >/dev/null
        fi"""
    destroy = 'git -C "$BASE" worktree remove --force "$AT"'
    deps = r"""
        python3 -m venv .venv
        .venv/bin/python -m pip install -q --no-index \
            --disable-pip-version-check --find-links "$WHEELS" pytest
        cp -a "$TREE/rust/vendor" rust"""

    def suits(self, tree):
        return "git" in tree.has

    def prepare(self, tree):
        """Of a clone: the origin stays as it is for the others."""
        child.run('git clone -q --bare "$TREE" "$BASE"',
                  self.variables(tree, ""), self.bench.limit)

    def drop(self, tree):
        child.run('rm -rf "$BASE"', self.variables(tree, ""),
                  self.bench.limit)

    @classmethod
    def lacks(cls, bench):
        return child.lacking("git")


class Overlay(Contender):
    """Its lower layer is the origin."""
    name = "overlayfs"
    takes = {"work", "life", "cold", "container"}
    quick = {"work", "life", "container"}
    layers = ('mkdir -p "$AT" "$AT".l/upper "$AT".l/work; '
              'O="lowerdir=$TREE,upperdir=$AT.l/upper,workdir=$AT.l/work"; ')
    create = layers + 'mount -t overlay overlay -o "$O" "$AT"'
    destroy = 'umount "$AT"; rm -rf "$AT".l "$AT"'

    @classmethod
    def lacks(cls, bench):
        return "needs root" if os.geteuid() else None


class FuseOverlay(Overlay):
    name = "fuse-overlayfs"
    create = Overlay.layers + (
        'if [ $EUID = 0 ]; then O=$O,allow_other,default_permissions; fi; '
        'fuse-overlayfs -o "$O" "$AT" >/dev/null 2>&1')
    destroy = ('if [ $EUID = 0 ]; then umount "$AT"; '
               'else fusermount3 -u "$AT"; fi; rm -rf "$AT".l "$AT"')

    @classmethod
    def lacks(cls, bench):
        return child.lacking("fuse-overlayfs")


class Null(Contender):
    """A FUSE server in memory that does nothing but answer: what is above it
    is a file system's own work. It starts empty, so the tree is copied in;
    git's index does not fit that copy."""
    name = "null FUSE"
    takes = {"work"}
    big = False
    without = ("git status, cold", "git status, warm")
    create = ('mkdir "$AT"; "$NULL" "$AT" >/dev/null 2>&1 & '
              'for i in {1..200}; do '
              'if mountpoint -q "$AT"; then break; fi; sleep .02; done; '
              'cp -a "$TREE/." "$AT"')
    destroy = 'umount "$AT"; rmdir "$AT"'

    def __init__(self, bench):
        super().__init__(bench)
        self.env["NULL"] = str(bench.null)

    @classmethod
    def lacks(cls, bench):
        if os.geteuid():
            return "needs root"
        return None if bench.null else "bench/null_fuse is not built"


class Podman(Contender):
    """Containers of an image in podman's own storage."""
    name = "podman"
    takes = {"container"}
    call = ('podman --root "$TOP/storage" --runroot /mnt '
            '--tmpdir "$TOP/tmp" --cgroup-manager=cgroupfs '
            '--events-backend=file --runtime runc ')
    start = call + ('run --rm --name "$ID" --network none '
                    '--ulimit nofile=20000:20000 --ulimit nproc=4096:4096 '
                    'localhost/base:1 /bin/echo hello')
    create, destroy = ":", ":"

    def __init__(self, bench):
        """Locks in files: others would stay in /dev/shm, for everybody. And
        /mnt is its own in the name space of the run, since podman takes no
        runroot of more than 50 bytes."""
        super().__init__(bench)
        (self.top / "run").mkdir()
        subprocess.run(["mount", "--bind", self.top / "run", "/mnt"],
                       check=True)
        conf = self.top / "containers.conf"
        conf.write_text('[engine]\nlock_type = "file"\n')
        self.env["CONTAINERS_CONF"] = str(conf)

    @classmethod
    def lacks(cls, bench):
        if os.geteuid():
            return "needs root"
        return child.lacking("podman", "runc")

    def suits(self, tree):
        return "root" in tree.has

    def prepare(self, tree):
        child.run(f'tar cf - -C "$TREE" . | {self.call} import -q - base:1',
                  self.variables(tree, ""), self.bench.limit)


class Cowfs(Contender):
    name = "cowfs"
    takes = {"work", "life", "cold", "first", "container", "box", "own"}
    create = 'cowfs mount "$NAME" "$ID" >/dev/null'
    destroy = 'cowfs umount "$ID" --discard'
    enter = 'cowfs run "$ID" -- bash -euc "$SCRIPT"'

    def __init__(self, bench):
        super().__init__(bench)
        self.top.chmod(0o755)
        self.store = mountpoint.Store(self.top)
        self.env.update(COWFS_STORE=str(self.store.path),
                        PATH=self.store.env["PATH"])
        self.store.env = self.env

    def at(self, name):
        return self.store.path / "mnt" / name

    def prepare(self, tree):
        """An environment that stays keeps the server: it is not started
        anew in each round. What jest keeps in /tmp is warm, as that which it
        keeps in the tree."""
        child.run('[ ! -e "$TREE/node_modules/jest" ] || { cd "$TREE"; '
                  'TMPDIR=/tmp npm test --silent -- -t rates >/dev/null 2>&1'
                  ' || :; '
                  'for d in /tmp/jest_*; do [ ! -O "$d" ] || '
                  'cowfs import --cache jest="$d" >/dev/null; done; }; '
                  'cowfs import "$TREE" -t "$NAME" >/dev/null; '
                  'cowfs mount "$NAME" "keep-$NAME" >/dev/null',
                  self.variables(tree, ""), self.bench.limit)

    def drop(self, tree):
        child.run('cowfs umount "keep-$NAME"; cowfs rm "$NAME"; '
                  'cowfs gc >/dev/null', self.variables(tree, ""),
                  self.bench.limit)

    def used(self):
        """After what was thrown away has gone, which takes some seconds."""
        child.run('for i in {1..300}; do '
                  '[ "$(ls -A "$COWFS_STORE/trash" 2>/dev/null)" ] || exit 0; '
                  'sleep .1; done; wrong "trash is not emptied"', self.env)
        return super().used()

    def recover(self):
        mountpoint.force_away(self.top)

    def close(self):
        for line in self.store.close():
            self.bench.note("cowfs", line)
        child.remove(self.top)


class NoJournal(Cowfs):
    """A build with -DCOWFS_JOURNAL=OFF: what the journal costs."""
    name = "cowfs without journal"
    takes = {"work"}

    def __init__(self, bench):
        super().__init__(bench)
        (self.top / "bin").mkdir()
        (self.top / "bin/cowfs").symlink_to(bench.args.journal_off.resolve())
        self.env["PATH"] = f"{self.top}/bin:{self.env['PATH']}"


class Bubblewrap(Contender):
    """The sandbox that `cowfs run` makes, by hand."""
    name = "bubblewrap"
    takes = {"box"}
    create, destroy = 'mkdir "$AT"', 'rmdir "$AT"'
    enter = ('bwrap --unshare-pid --unshare-ipc --unshare-uts --unshare-net '
             '--unshare-cgroup --ro-bind / / --proc /proc --dev /dev '
             '--tmpfs /tmp -- bash -euc "$SCRIPT"')

    def up(self, tree, name):
        self.at(name).mkdir(parents=True)

    @classmethod
    def lacks(cls, bench):
        return child.lacking("bwrap")


# In the order of tables.
ALL = (Native, Copy, XfsReflink, BtrfsReflink, BtrfsSnapshot, Worktree,
       Overlay, FuseOverlay, Podman, Bubblewrap, Null, NoJournal, Cowfs)
