# SPDX-License-Identifier: MIT
"""Completion in the real shells: a terminal is typed into, TAB and all.

After TAB the line is turned into the arguments of printf (Ctrl-A goes to its
beginning), so that the shell itself says which words it would have run.
"""
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time

import mountpoint
import pytest
from conftest import skip_unless

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETUP = {
    "bash": ["PS1='> '", "set +o history", 'eval "$(cowfs completion bash)"'],
    "zsh": ["PS1='> '", "autoload -Uz compinit", "compinit -D -u",
            "bindkey -e", "unsetopt beep", 'eval "$(cowfs completion zsh)"'],
    "fish": ["function fish_prompt; echo '> '; end",
             "cowfs completion fish | source"],
}
# what is typed before TAB: the words that the line has then
LINES = [
    ("cowfs snap", ["cowfs", "snapshots"]),
    ("cowfs mount bas", ["cowfs", "mount", "base:latest"]),
    ("cowfs mount base:l", ["cowfs", "mount", "base:latest"]),
    ("cowfs mount base:", ["cowfs", "mount", "base:latest"]),
    ("cowfs tag  other:v", ["cowfs", "tag", "other:v1.2"]),
    ("cowfs rm base:latest oth", ["cowfs", "rm", "base:latest", "other:v1.2"]),
    ("cowfs umount alp", ["cowfs", "umount", "alpha"]),
    ("cowfs export alp", ["cowfs", "export", "alpha"]),
    ("cowfs umount alpha be", ["cowfs", "umount", "alpha", "beta"]),
    ("cowfs diff --json al", ["cowfs", "diff", "--json", "alpha"]),
    ("cowfs umount --disc", ["cowfs", "umount", "--discard"]),
    ("cowfs --js", ["cowfs", "--json"]),
    ("cowfs import --exclude x --skip", ["cowfs", "import", "--exclude", "x",
                                         "--skip-unreadable"]),
    ("cowfs daemon sto", ["cowfs", "daemon", "stop"]),
    ("cowfs help comp", ["cowfs", "help", "completion"]),
    ("cowfs completion fi", ["cowfs", "completion", "fish"]),
    ("cowfs mount base --view fu", ["cowfs", "mount", "base", "--view",
                                    "fuse"]),
    ("cowfs mount base --view=au", ["cowfs", "mount", "base", "--view=auto"]),
    ("cowfs import with", ["cowfs", "import", "with space"]),
    ("cowfs mount base --at wi", ["cowfs", "mount", "base", "--at",
                                  "with space"]),
    ("cowfs mount base --at=pl", ["cowfs", "mount", "base", "--at=plain"]),
    ("cowfs --store nowhere mount bas", ["cowfs", "--store", "nowhere",
                                         "mount", "bas"]),
    ("cowfs import ~/here/pl", ["cowfs", "import", "HOME/here/plain"]),
    ("cowfs mount base:latest bas", ["cowfs", "mount", "base:latest", "bas"]),
    ("cowfs nothing q", ["cowfs", "nothing", "q"]),
]


class Terminal:
    """A shell in a terminal of its own, wide enough for one-line lines."""

    def __init__(self, shell, env, folder):
        self.master, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200,
                                                          0, 0))
        self.child = subprocess.Popen(
            START[shell], stdin=side, stdout=side, stderr=side, cwd=folder,
            env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)
        self.text = b""
        self.count = 0
        for line in SETUP[shell]:
            self.send(line + "\n")
        self.words("true ")

    def send(self, text):
        os.write(self.master, text.encode())

    def wait(self, pattern):
        end = time.monotonic() + 20
        while not (found := re.search(pattern, self.text, re.S)):
            ready, _, _ = select.select([self.master], [], [], 0.2)
            if ready:
                self.text += os.read(self.master, 65536)
            assert time.monotonic() < end, self.text[-2000:].decode(
                errors="replace")
        return found

    def words(self, line):
        """The words of a line, after its TAB."""
        self.count += 1
        mark = f"{self.count:04}"
        self.send(f"{line}\x01printf '[%s]' begin{mark} \x05 end{mark}\n")
        # In brackets it is what was printed, not what was echoed.
        found = self.wait(rb"\[begin%s\](.*?)\[end%s\]"
                          % ((mark.encode(),) * 2))
        # zsh takes the '/' away that it has put behind a directory.
        return re.findall(r"\[(.*?)/?\]", found[1].decode())

    def close(self):
        self.child.kill()
        self.child.wait(10)
        os.close(self.master)


@pytest.fixture(scope="module")
def store():
    s = mountpoint.Store()
    (s.folder / "tree").mkdir()
    (s.folder / "tree/file").write_text("x\n")
    s.load(s.folder / "tree", "base")
    s.load(s.folder / "tree", "other:v1.2")
    for name in ("alpha", "beta"):
        (s.path / "envs" / name).mkdir(parents=True)
    s.work = s.folder / "here"
    for name in ("with space", "plain"):
        (s.work / name).mkdir(parents=True)
    (s.work / "withered").write_text("a file, which is never offered\n")
    yield s
    shutil.rmtree(s.path / "envs")
    assert not s.close()


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request, store):
    skip_unless(shutil.which(request.param), request.param)
    env = dict(store.env, TERM="dumb", HOME=str(store.folder))
    terminal = Terminal(request.param, env, store.work)
    yield terminal
    terminal.close()


@pytest.mark.parametrize("line, words", LINES, ids=[c[0] for c in LINES])
def test_tab(shell, store, line, words):
    got = shell.words(line + "\t")
    assert got == [w.replace("HOME", str(store.folder)) for w in words]


def test_zsh_finds_it_as_a_file(store):
    """As _cowfs in a folder of fpath, which is how packages install it."""
    skip_unless(shutil.which("zsh"), "zsh")
    folder = store.folder / "functions"
    folder.mkdir()
    (folder / "_cowfs").write_text(store.run("completion", "zsh").out)
    env = dict(store.env, TERM="dumb", HOME=str(store.folder))
    setup = SETUP["zsh"]
    SETUP["zsh"] = [f"fpath=({folder} $fpath)", *setup[:-1]]
    try:
        terminal = Terminal("zsh", env, store.work)
    finally:
        SETUP["zsh"] = setup
    try:
        assert terminal.words("cowfs snap\t") == ["cowfs", "snapshots"]
        assert terminal.words("cowfs mount base:\t")[-1] == "base:latest"
    finally:
        terminal.close()
