#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""agent.py STEP... - what a careless agent does in the project it stands in.

It takes the fixed port, the fixed database, the caches of the user and names
in /tmp as if it were alone, ends processes by name, and says what it has found
that is not its own. AGENT is its number. A step that fails says why and ends
with 1.
"""
import ctypes
import errno
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

AGENT = os.environ["AGENT"]
N = int(AGENT)
HERE = pathlib.Path(__file__).resolve().parent
HOME = pathlib.Path.home()
SHM_KEY, SHM_SIZE = 0x73686F70, 4096
ABSTRACT = "\0shop-worker"
TMP_FILES = 200
RATE = 100 + N
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))

# Each destroys something, and each something else: the change; the tables and
# rows that are left; who has written notes then.
CUSTOMERS, ITEMS = ["id", "name"], ["id", "name", "price"]
NOTES = ["author", "body", "id"]
MIGRATIONS = [
    ("drop table customers; create table people as select n as id"
     " from generate_series(1, 11) n",
     {"items": ITEMS, "notes": NOTES, "people": ["id"]},
     {"items": 1000, "people": 11}, ["seed", AGENT]),
    ("truncate items; insert into items values (1, 'only', 1);"
     "alter table notes add column place text",
     {"customers": CUSTOMERS, "items": ITEMS, "notes": [*NOTES, "place"]},
     {"customers": 500, "items": 1}, ["seed", AGENT]),
    ("alter table items rename column price to cents;"
     "delete from items where id % 2 = 0;"
     "update items set cents = cents * 100",
     {"customers": CUSTOMERS, "items": ["cents", "id", "name"],
      "notes": NOTES},
     {"customers": 500, "items": 500}, ["seed", AGENT]),
    ("drop schema public cascade; create schema public;"
     "create table notes (id serial, author text, body text)",
     {"notes": NOTES}, {}, [AGENT]),
    ("drop table items; delete from notes; delete from customers"
     " where id > 3",
     {"customers": CUSTOMERS, "notes": NOTES}, {"customers": 3}, [AGENT]),
]


def fail(text):
    sys.exit(f"agent {AGENT}: {text}")


def check(want, got, what):
    if want != got:
        fail(f"{what}: {got!r}, not {want!r}")


def run(*argv, **kw):
    """A command that has to work; what it printed."""
    r = subprocess.run(argv, cwd=kw.pop("cwd", HERE), text=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, check=False, **kw)
    if r.returncode:
        fail(f"{' '.join(argv)}: exit {r.returncode}\n{r.stdout[-3000:]}")
    return r.stdout


# --- what is where it always is ----------------------------------------------

def cache_keys():
    """The same keys for every agent."""
    env = os.environ.get
    xdg = pathlib.Path(env("XDG_CACHE_HOME") or HOME / ".cache")
    npm = pathlib.Path(env("npm_config_cache") or HOME / ".npm")
    pip = pathlib.Path(env("PIP_CACHE_DIR") or xdg / "pip")
    cargo = pathlib.Path(env("CARGO_HOME") or HOME / ".cargo")
    return [xdg / "shop/rates-1.0.0", npm / "_cacache/shop-1.0.0",
            pip / "http/shop-1.0.0", cargo / "registry/cache/shop-1.0.0",
            HOME / ".shoprc"]


def scratch():
    folder = pathlib.Path("/tmp/shop")
    return [folder / f"part-{i}" for i in range(TMP_FILES)] + [
        pathlib.Path("/dev/shm/shop"), pathlib.Path("/var/tmp/shop")]


def shared_memory(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    which = libc.shmget(SHM_KEY, SHM_SIZE, flags)
    if which < 0:
        return None
    at = libc.shmat(which, None, 0)
    return (ctypes.c_char * SHM_SIZE).from_address(at)


def processes():
    """Names, words and variables of all that can be seen."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, words, env = (
                open(f"/proc/{pid}/{f}", "rb").read()
                for f in ("comm", "cmdline", "environ"))
        except OSError:
            continue
        found[int(pid)] = (name.decode().strip(), words.split(b"\0"),
                           env.split(b"\0"))
    return found


def named(name):
    return [pid for pid, (_, words, _) in processes().items()
            if name.encode() in words]


def ask(path, data=None):
    with NO_PROXY.open(f"http://127.0.0.1:3000{path}", data, 20) as r:
        return json.load(r)


# --- steps -------------------------------------------------------------------

def look():
    """An environment that nobody has been in."""
    left = [str(p) for p in cache_keys() + scratch() if p.exists()]
    check([], left, "left by somebody")
    top = HERE.parts[2] if HERE.parts[1] == "tmp" else ""
    check([], [f for f in os.listdir("/tmp") if f != top], "/tmp")
    check(None, shared_memory(0), "shared memory")
    check([], named("server.js") + named("hold"), "processes")
    for port in (3000, 5432):
        with socket.socket() as s:
            check(errno.ECONNREFUSED, s.connect_ex(("127.0.0.1", port)),
                  f"port {port}")


def migrate():
    sql, tables, rows, authors = MIGRATIONS[N]
    name = f"002_agent{N}.sql"
    (HERE / "db/migrations" / name).write_text(sql + ";\n")
    expect = json.loads((HERE / "expect.json").read_text())
    expect.update(tables=tables, rows=rows, authors=sorted(authors))
    expect["rates"][N] = RATE
    (HERE / "expect.json").write_text(json.dumps(expect, indent=2) + "\n")
    check(f"applied {name}\n", run("node", "db/migrate.js"), "migrate")


def background(*argv):
    """Returns when it has said that it is there."""
    with subprocess.Popen(argv, cwd=HERE, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, start_new_session=True) as child:
        said = child.stdout.readline().strip()
        if said != "listening":
            fail(f"{' '.join(argv)}: {said or 'ended'}")
        child.returncode = 0  # it stays when we go


def serve():
    background("node", "server.js")
    check(AGENT, ask("/whoami")["agent"], "server")


def hold():
    """A worker that is found by the names of its sockets."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(ABSTRACT)
        s.listen()
        print("listening", flush=True)
        while True:
            peer, _ = s.accept()
            peer.sendall(AGENT.encode())
            peer.close()


def worker():
    background(sys.executable, "agent.py", "hold")


def edit():
    """Other lines of the same files."""
    for name, old, new in (
            ("lib/rates.js", rf"rates\[{N}\] = 0", f"rates[{N}] = {RATE}"),
            ("py/rates.py", rf"RATES\[{N}\] = 0", f"RATES[{N}] = {RATE}"),
            ("rust/src/lib.rs", rf"(Kind {N}\.\n\s*all\.push\()0",
             rf"\g<1>{RATE}")):
        text, count = re.subn(old, new, (HERE / name).read_text())
        check(1, count, name)
        (HERE / name).write_text(text)
    (HERE / "mine").write_text(AGENT)


def cache():
    for path in cache_keys():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(AGENT)


def litter():
    for path in scratch():
        path.parent.mkdir(exist_ok=True)
        path.write_text(AGENT * 1000)
    shared_memory(0o1600).value = AGENT.encode()


def install():
    """Removes the packages of db and installs them anew."""
    run("npm", "ci", "--offline", "--no-audit", "--no-fund", "--cache",
        str(HERE / "vendor/npm"), cwd=HERE / "db")


def compiled():
    run("cargo", "build", "--offline", "-q", cwd=HERE / "rust")
    out = run("rust/target/debug/shop").split()
    check(str(RATE), out[N], "the program's rate")


def npm_test():
    out = run("npm", "test", "--silent")
    check(True, "4 passed, 4 total" in out, out[-2000:])


def schema_test():
    """Of npm_test the part that needs no server."""
    run("npm", "test", "--silent", "--", "-t", "migrations")


def py_test():
    out = run(".venv/bin/python", "-m", "pytest", "-q", "py")
    check(True, "1 passed" in out, out[-2000:])


def tests():
    npm_test()
    py_test()


def pkill():
    """What it believes to be its own, by name; then its server again."""
    before = ask("/whoami")["id"]
    run("pkill", "-x", "node")
    run("pkill", "-KILL", "-f", "agent.py hold")
    end = time.monotonic() + 20
    while named("server.js") or named("hold"):
        if time.monotonic() > end:
            fail("does not end")
        time.sleep(0.02)
    serve()
    worker()
    check(False, ask("/whoami")["id"] == before, "the old server answers")
    (HERE / "var/id").write_text(ask("/whoami")["id"])


def fill():
    """To the end of its quota, and back."""
    big, block = HERE / "big", os.urandom(1 << 20)
    try:
        with open(big, "wb", buffering=0) as f:
            for _ in range(4096):
                f.write(block)
        fail("no quota")
    except OSError as err:
        check(True, err.errno in (errno.ENOSPC, errno.EDQUOT), str(err))
    big.unlink()


def half():
    """Is to be killed in the middle: a child that does not want to end, half
    a file, a transaction."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(100000)
        os._exit(0)
    (HERE / "half").write_text("half of " + AGENT)
    with subprocess.Popen(["psql", "-h", "127.0.0.1", "-U",
                           os.environ["PGUSER"], "-Xq", "postgres"],
                          stdin=subprocess.PIPE, text=True) as sql:
        sql.stdin.write("begin; drop table notes; select pg_sleep(100000);\n")
        sql.stdin.flush()
        print("half", flush=True)


def own_cache():
    for path in cache_keys():
        check(AGENT, path.read_text(), str(path))


def own_files():
    for path in scratch():
        check(AGENT * 1000, path.read_text(), str(path))
    check(AGENT, (HERE / "mine").read_text(), "the tree")
    check(AGENT.encode(), shared_memory(0).value, "shared memory")


def own_processes():
    """And none of others is seen."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(ABSTRACT)
        check(AGENT, s.recv(10).decode(), "the worker")
    check({"agent": AGENT, "id": (HERE / "var/id").read_text()},
          ask("/whoami"), "the server")
    check((1, 1), (len(named("server.js")), len(named("hold"))), "processes")
    for kind in (b"AGENT=", b"COWFS_ENV="):
        found = {v for _, _, env in processes().values() for v in env
                 if v.startswith(kind)}
        want = os.environ.get(kind[:-1].decode())
        check({kind + want.encode()} if want else set(), found, "processes")


def ours():
    """Nothing that was ours is another's."""
    own_cache()
    own_files()
    own_processes()


def commit():
    run("git", "checkout", "-q", "-b", f"work-{AGENT}")
    run("git", "add", "-A")
    run("git", "commit", "-q", "-m", f"the work of {AGENT}")


def main():
    for step in sys.argv[1:]:
        began = time.monotonic()
        globals()[step]()
        print(f"{step} {time.monotonic() - began:.2f}", flush=True)


main()
