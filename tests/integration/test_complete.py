# SPDX-License-Identifier: MIT
"""An environment is complete: what developers use works in `cowfs run`."""
import shutil
import struct

import pytest

from conftest import skip_unless
from helpers import SUPPORT
from shop import PYTHON, shop, store, variables  # noqa: F401

SEED = variables("seed")
# What it is called; the command; what it prints at least.
COMMANDS = [
    ("make", "printf 'hi: hi.c\\n' > makefile && make -s && ./hi", "hi\n"),
    ("strace", "strace -f -e trace=openat sh -c 'cat agent.py' 2>&1 "
               "| grep -c 'agent.py\".* = 3'", "1\n"),
    ("strace -p", "mkfifo /tmp/f; cat /tmp/f & strace -p $! 2>&1 | "
                  "{ read first; echo go > /tmp/f; cat; }",
     "+++ exited with 0 +++"),
    ("gdb", "gdb -q -batch -ex 'break puts' -ex run -ex bt -ex 'p 6*7' ./hi",
     "$1 = 42"),
    ("gdb -p", "sleep 600 > /dev/null & gdb -q -batch -p $! -ex 'p 6*7' 2>&1;"
               "kill $!", "$1 = 42"),
    ("git", "git checkout -q -b work && git add hi.c && "
            "git commit -q -m 'more' && git log --format=%s", "more\na shop\n"),
    ("npm", "npm test --silent 2>&1", "4 passed, 4 total"),
    ("pytest", ".venv/bin/python -m pytest -q py", "1 passed"),
    ("cargo", "cd rust && cargo test --offline 2>&1", "1 passed"),
    ("psql", "psql -XAtc 'select count(*) from items'", "1000\n"),
    ("pg_dump", "pg_dump -t notes --data-only", "COPY public.notes"),
    ("node", "node -p '6 * 7'", "42\n"),
]


@pytest.fixture(scope="module")
def place(shop):  # noqa: F811
    """The project, with a C program."""
    (shop / "hi.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("hi"); return 0; }\n')
    return shop


@pytest.fixture
def env(place, store):  # noqa: F811
    """An environment e, where database and server run."""
    store.mount("base", "e", "--artifact", "*.png")
    sh(store, "true")
    store.run("db", "start", "e")
    sh(store, "node server.js > /dev/null 2>&1 & "
              "until curl -s --noproxy '*' 127.0.0.1:3000/whoami; do "
              "sleep 0.05; done")
    return store


def sh(store, script, *options, **kw):  # noqa: F811
    return store.run("run", "--net", "private", *options, *SEED, "e", "--",
                     "sh", "-c", script, **kw)


@pytest.mark.tree
def test_commands(env):
    wrong = []
    for name, script, want in COMMANDS:
        tool = name.split()[0]
        if tool in ("gdb", "strace", "make") and not shutil.which(tool):
            continue
        result = sh(env, script, expect=None, limit=120)
        if want not in result.out:
            wrong.append(f"{name}: {result}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_a_browser(env, tmp_path):
    """Debian's chromium opens the environment's own server and clicks; its
    picture is taken out at the end."""
    skip_unless(shutil.which("chromium"), "chromium")
    result = env.run("run", "--net", "private", *SEED, "e", "--", PYTHON,
                     "-c", (SUPPORT / "browser.py").read_text(),
                     "http://127.0.0.1:3000/", "shot.png", limit=120)
    assert result.out == "seed clicked\n"
    assert sh(env, "psql -XAtc 'select body from notes where id > 1'").out \
        == "clicked\n"
    env.run("umount", "e", "--discard", "--artifacts", tmp_path / "out")
    shot = (tmp_path / "out/shot.png").read_bytes()
    assert shot[:8] == b"\x89PNG\r\n\x1a\n" and len(shot) > 2000
    assert struct.unpack(">I", shot[16:20])[0] >= 600
