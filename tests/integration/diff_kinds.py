# SPDX-License-Identifier: MIT
"""What test_diff_git.py does to a tree: one thing of each kind, and at
random."""
import os
import random
import shutil


def base_tree(top):
    """Something of every kind that a patch knows."""
    top.mkdir(parents=True)
    (top / "num").write_text("".join(f"{i}\n" for i in range(200)))
    (top / "nonl").write_text("no newline")
    (top / "empty").write_text("")
    (top / "a b").write_text("space\n")
    (top / "crlf").write_bytes(b"one\r\ntwo\r\n")
    (top / "bin").write_bytes(bytes(range(256)) * 40)
    (top / "rnd").write_bytes(random.Random(1).randbytes(60000))
    (top / "mode").write_text("m\n")
    (top / "exec").write_text("#!/bin/sh\n")
    (top / "exec").chmod(0o755)
    (top / "link").symlink_to("num")
    (top / "dangling").symlink_to("no/where")
    (top / "d/e").mkdir(parents=True)
    (top / "d/long").write_text("".join(f"line {i}\n" for i in range(300)))
    (top / "d/e/x").write_text("x\n")
    (top / "d/one").write_text("1\n")
    (top / "ta\tb").write_text("t\n")
    (top / 'q"\\').write_text("q\n")
    (top / "ü").write_text("u\n")
    name = os.fsencode(str(top)) + b"/latin\xe9"
    with open(name, "w", encoding="ascii") as f:
        f.write("l\n")


# what is done, the letters that --json tells (sorted), how it is told that
# something is left out
KINDS = [
    ("nothing", ":", [], None),
    ("line", "sed -i 's/^100$/hundred/' num", ["M"], None),
    ("first and last line", "sed -i '1d;$d' num", ["M"], None),
    ("all lines", "sed -i 's/^/x/' num", ["M"], None),
    ("end without a newline", "printf more >> num", ["M"], None),
    ("newline at the end", "echo >> nonl", ["M"], None),
    ("no newline, changed", "printf 'no newlinE' > nonl", ["M"], None),
    ("emptied", ": > num", ["M"], None),
    ("filled", "echo x > empty", ["M"], None),
    ("line ends", "printf 'one\\ntwo\\r\\n' > crlf", ["M"], None),
    ("binary byte", "printf Z | dd of=rnd bs=1 seek=3333 conv=notrunc "
     "status=none", ["M"], None),
    ("binary other", "head -c 70000 /dev/urandom > rnd", ["M"], None),
    ("binary to text", "echo text > bin", ["M"], None),
    ("text to binary", "printf 'a\\0b' > num", ["M"], None),
    ("binary grown", "head -c 3000 /dev/urandom >> bin", ["M"], None),
    ("executable", "chmod +x mode", ["M"], None),
    ("no longer executable", "chmod -x exec", ["M"], None),
    ("mode and content", "chmod +x mode; echo n >> mode", ["M"], None),
    ("new", "echo new > new", ["A"], None),
    ("new empty", ": > new", ["A"], None),
    ("new without newline", "printf new > new", ["A"], None),
    ("new executable", "echo x > new; chmod 755 new", ["A"], None),
    ("new binary", "head -c 5000 /dev/urandom > new", ["A"], None),
    ("new link", "ln -s a/b/c new", ["A"], None),
    ("new deep", "mkdir -p n/m; echo x > n/m/o", ["A"], None),
    ("new hard link", "ln num new", ["A"], None),
    ("hole", "truncate -s 300000 new", ["A"], None),
    ("deleted", "rm num", ["D"], None),
    ("deleted binary", "rm rnd", ["D"], None),
    ("deleted empty", "rm empty", ["D"], None),
    ("deleted link", "rm link", ["D"], None),
    ("deleted folder", "rm -r d", ["D", "D", "D"], None),
    ("target", "ln -sfn nonl link", ["M"], None),
    ("link to file", "rm link; cp num link", ["A", "D"], None),
    ("file to link", "rm num; ln -s bin num", ["A", "D"], None),
    ("binary to link", "rm rnd; ln -s bin rnd", ["A", "D"], None),
    ("file to folder", "rm num; mkdir num; echo x > num/x", ["A", "D"], None),
    ("folder to file", "rm -r d; echo d > d", ["A", "D", "D", "D"], None),
    ("folder to link", "mv d f; ln -s f d",
     ["A", "R100", "R100", "R100"], None),
    ("renamed", "mv num d/moved", ["R100"], None),
    ("renamed binary", "mv rnd d/moved", ["R100"], None),
    ("renamed link", "mv dangling other", ["A", "D"], None),
    ("renamed executable", "mv exec other", ["R100"], None),
    ("renamed, mode", "mv num other; chmod +x other", ["R100"], None),
    ("renamed, odd", "mv num \"$(printf 'a\\nb\\351')\"", ["R100"], None),
    ("renamed from odd", "mv 'ta\tb' plain; mv 'q\"\\' 'p q'",
     ["R100", "R100"], None),
    ("swapped", "mv num t; mv d/long num; mv t d/long", ["M", "M"], None),
    ("folder renamed", "mv d elsewhere", ["R100", "R100", "R100"], None),
    ("odd names", "for n in *[!a-z]*; do echo >> \"$n\"; done", ["M"] * 5,
     None),
    ("odd new names", "for n in \"$(printf '\\001')\" \"$(printf 'a\\nb')\" "
     "'a\"' 'back\\' ' lead' 'trail ' \"$(printf '\\377')\" -dash '*' "
     "\"$(printf 'del\\177')\" b/x; do mkdir -p b; echo 1 > \"./$n\"; done",
     ["A"] * 11, None),
    ("undone", "cp num s; echo >> num; cat s > num; rm s", [], None),
    ("touched", "touch num", [], None),
    ("empty folder", "mkdir n", [], "1 empty directory"),
    ("empty folders", "mkdir -p n/m o", [], "2 empty directories"),
    ("xattr", "setfattr -n user.a -v b num", [],
     "1 file's extended attributes"),
    ("xattr and content", "setfattr -n user.a -v b num; echo >> num", ["M"],
     "1 file's extended attributes"),
    ("xattr of what is new", "echo n > new; setfattr -n user.a -v b new",
     ["A"], "1 file's extended attributes"),
    ("xattr of a folder", "setfattr -n user.a -v b d", [],
     "1 directory's attributes"),
    ("fifo", "mkfifo new", [], "1 special file"),
    ("fifo for a file", "rm num; mkfifo num", ["D"], "1 special file"),
    ("other mode", "chmod 600 num", [], "1 mode"),
    (".git", "mkdir .git; echo > .git/x; echo > num", ["M"],
     "1 path in .git"),
    ("nested .git", "mkdir -p d/.git; echo > d/.git/x; echo > d/y", ["A"],
     "1 path in .git"),
    ("names that git refuses", "mkdir .GIT git~1; echo > .GIT/x; "
     "echo > git~1/x; echo > num", ["M"], "2 names that git refuses"),
]
AS_ROOT = [
    ("owner", "chown 12 num", [], "1 owner"),
    ("device", "mknod new c 1 3", [], "1 special file"),
]


class Random:
    """Changes a tree at random; the same seed makes the same changes."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def content(self):
        r = self.r
        kind = r.randrange(5)
        if kind == 0:
            return r.randbytes(r.randrange(5000))
        if kind == 1:
            return b""
        lines = [r.choice([b"a", b"b", b"", b"line %d" % r.randrange(9)])
                 for _ in range(r.randrange(60))]
        end = b"\r\n" if kind == 2 else b"\n"
        return end.join(lines) + r.choice([b"", end])

    def name(self):
        return self.r.choice([
            "a", "b", "c", "sp ace", "t\tab", 'q"', "\\", "ü", "n\nl",
            "\udcff", "-x", "d", "e", "f"])

    def find(self, top):
        found = []
        for at, dirs, names in os.walk(top):
            found += [os.path.join(at, n) for n in dirs + names]
        return found

    def folder(self, top):
        return self.r.choice([top] + [p for p in self.find(top) if
                                      os.path.isdir(p) and
                                      not os.path.islink(p)])

    def step(self, top):
        r = self.r
        path = os.path.join(self.folder(top), self.name())
        there = self.find(top)
        op = r.randrange(9)
        if op <= 1 and not os.path.lexists(path):
            with open(path, "wb") as f:
                f.write(self.content())
        elif op == 2 and not os.path.lexists(path):
            os.symlink(self.name(), path)
        elif op == 3 and not os.path.lexists(path):
            os.mkdir(path)
        elif there:
            self.change(op, r.choice(there), path)

    def change(self, op, old, path):
        r = self.r
        is_dir = os.path.isdir(old) and not os.path.islink(old)
        if op == 4 and not is_dir:
            os.unlink(old)
        elif op == 5 and is_dir and r.randrange(3) == 0:
            shutil.rmtree(old)
        elif op == 6 and not path.startswith(old + "/") and \
                not os.path.lexists(path):
            os.rename(old, path)
        elif op == 7 and not is_dir and not os.path.islink(old):
            os.chmod(old, r.choice([0o644, 0o755]))
        elif not is_dir and not os.path.islink(old):
            self.edit(old)

    def edit(self, path):
        with open(path, "rb") as f:
            lines = f.read().split(b"\n")
        i = self.r.randrange(len(lines))
        lines[i:i + self.r.randrange(3)] = [b"edited %d" %
                                            self.r.randrange(99)]
        with open(path, "wb") as f:
            f.write(b"\n".join(lines))
