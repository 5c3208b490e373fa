# SPDX-License-Identifier: MIT
"""names.py - a folder in which names come and go, and what must be there.

Names keeps {path: (kind, inode number)}; do() makes an operation and returns
the number of what it made. After a death the folder must be as after the last
operation that returned, or as after the one that had begun.
"""
import os
import stat

KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}


def do_file(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    return os.lstat(path).st_ino


def do_folder(path):
    os.mkdir(path)
    return os.lstat(path).st_ino


def do_symlink(path):
    os.symlink("some/where", path)
    return os.lstat(path).st_ino


DO = {
    "file": do_file, "folder": do_folder, "symlink": do_symlink,
    "link": os.link, "rename": os.rename, "unlink": os.unlink,
    "rmdir": os.rmdir,
}


def do(op):
    return DO[op[0]](*op[1:])


class Names:
    def __init__(self):
        self.paths, self.made = {}, 0

    def of(self, kind):
        return sorted(p for p, (k, _) in self.paths.items() if k == kind)

    def parent(self, rng):
        return rng.choice(["."] + self.of("d"))

    def fresh(self, rng):
        self.made += 1
        length = rng.choice([0, 0, 20, 150])
        return f"{self.parent(rng)}/{self.made}{'n' * length}"

    def below(self, folder):
        return [p for p in self.paths if p.startswith(folder + "/")]

    def choose(self, rng):
        kinds = ["file"] * 6 + ["folder", "symlink", "link", "rename",
                                "rename", "over", "move", "rmdir"]
        if len(self.paths) > 150:
            kinds += ["unlink"] * 20
        kind = rng.choice(kinds)
        files, folders = self.of("f"), self.of("d")
        if kind in ("link", "rename", "over", "unlink") and files:
            return self.on_file(kind, rng, files)
        empty = [d for d in folders if not self.below(d)]
        if kind == "rmdir" and empty:
            return ["rmdir", rng.choice(empty)]
        if kind == "move" and folders:
            d = rng.choice(folders)
            to = self.fresh(rng)
            if not to.startswith(d + "/"):
                return ["rename", d, to]
        if kind == "folder" and len(folders) < 20:
            return ["folder", self.fresh(rng)]
        return ["symlink" if kind == "symlink" else "file", self.fresh(rng)]

    def on_file(self, kind, rng, files):
        path = rng.choice(files)
        if kind == "unlink":
            return ["unlink", path]
        if kind == "over":
            return ["rename", path, rng.choice(files)]
        return [kind, path, self.fresh(rng)]

    def add(self, op, number):
        name, path, *more = op
        if name in ("file", "folder", "symlink"):
            kind = {"file": "f", "folder": "d", "symlink": "l"}[name]
            self.paths[path] = (kind, number)
        elif name == "link":
            self.paths[more[0]] = self.paths[path]
        elif name == "rename":
            self.rename(path, more[0])
        else:
            del self.paths[path]

    def rename(self, old, new):
        if self.paths[old] == self.paths.get(new):
            return  # two names of one file: both stay
        for path in self.below(old):
            self.paths[new + path[len(old):]] = self.paths.pop(path)
        self.paths[new] = self.paths.pop(old)


def listing(top):
    """{path: [kind, inode number]} of what is there."""
    found = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            found[path] = [KINDS[stat.S_IFMT(st.st_mode)], st.st_ino]
    return found


def judge(found, events):
    """Compares a listing with notes; returns what is wrong, or None."""
    model, op = Names(), None
    for what, _, value, *more in events:
        if what == "begin":
            op = value
        else:
            model.add(op, more[0])
            op = None
    found = {p: tuple(r) for p, r in found.items()}
    if found == model.paths:
        return None
    before = dict(model.paths)
    if op:
        # The number of what may have been made is not known.
        number = found.get(op[1], (None, None))[1]
        model.add(op, number)
        if found == model.paths:
            return None
    differ = sorted(set(found.items()) ^ set(before.items()))
    return f"under way: {op}; differs: {differ[:6]}"
