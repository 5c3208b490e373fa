# SPDX-License-Identifier: MIT
"""mount --port and --net: published ports of a private network."""
import concurrent.futures
import hashlib
import os
import shutil
import signal
import threading
import time

import pytest

from conftest import skip_unless
from helpers import PYTHON, one_line_error, wait_until
from port_case import (COUNT, NODE, box, dial, exchange, get,  # noqa: F401
                       is_up, is_up_bare, ports, read_all, relays_of, start,
                       variables)

# The same as COUNT at one port after the other, at each address.
LISTEN = """
import selectors, socket, sys
seen = selectors.DefaultSelector()
for port, address in enumerate(sys.argv[2:], int(sys.argv[1])):
    six = ":" in address
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    if six:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind((address, port))
    s.listen()
    seen.register(s, selectors.EVENT_READ)
open("ready", "w").close()
while True:
    for key, _ in seen.select():
        c = key.fileobj.accept()[0]
        n = 0
        while data := c.recv(65536):
            n += len(data)
        c.sendall(str(n).encode())
        c.close()
"""

# --- reached from the host ---------------------------------------------------

@pytest.mark.parametrize("listen", ["127.0.0.1", "::1", "::"])
def test_two_listen_at_the_same_port(box, listen):
    skip_unless(shutil.which("node"), "node")
    for env in ("e", "f"):
        box.mount("base", env, "--port", "3000", "--port", "5432")
        start(box, env, "node", "-e", NODE, listen)
    rows = {env: ports(box, env) for env in ("e", "f")}
    hosts = {env: rows[env][0]["host"] for env in rows}
    assert hosts["e"] != hosts["f"]
    for env, (first, second) in rows.items():
        assert (first["variable"], first["port"], first["host_port"]) == \
            ("COWFS_PORT_0", 3000, 3000)
        assert first["url"] == f"http://{hosts[env]}:3000"
        assert (second["port"], second["host"]) == (5432, hosts[env])
        wait_until(lambda p=first: is_up(p), 30)
        assert get(first) == f"I am {env}"
        assert get(first["socket"]) == f"I am {env}"
        assert first["socket"] == \
            f"{box.path}/envs/{env}/box/run/3000.sock"
    with pytest.raises(ConnectionRefusedError):
        dial({"host": "127.0.0.1", "host_port": 3000})


def test_a_hundred_at_once_with_big_bodies(box):
    skip_unless(shutil.which("node"), "node")
    box.mount("base", "e", "--port", "3000")
    start(box, "e", "node", "-e", NODE, "127.0.0.1")
    place = ports(box)[0]
    wait_until(lambda: is_up(place), 30)

    def one(i):
        body = hashlib.sha256(bytes([i])).digest() * 32768  # 1 MiB
        where = place if i % 2 else place["socket"]
        with dial(where, 120) as s:
            head = (f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n")
            sender = threading.Thread(
                target=s.sendall, args=[head.encode() + body])
            sender.start()
            got = read_all(s)
            sender.join()
        return body in got if b"chunked" not in got[:500] else unchunk(
            got.partition(b"\r\n\r\n")[2]) == body

    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        assert all(pool.map(one, range(100)))


def unchunk(data):
    out = []
    while data:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        out.append(data[:n])
        data = data[n + 2:]
        if not n:
            break
    return b"".join(out)


def test_each_half_ends_by_itself(box):
    box.mount("base", "e", "--port", "3000")
    start(box, "e", "python3", "-c", COUNT)
    place = ports(box)[0]
    wait_until(lambda: is_up_bare(place), 30)
    for where in (place, place["socket"]):
        assert exchange(where, b"x" * 1000003) == b"1000003"
        assert exchange(where, b"") == b"0"


def test_one_that_does_not_read_stops_no_other(box):
    box.mount("base", "e", "--port", "3000")
    start(box, "e", "python3", "-c", COUNT)
    place = ports(box)[0]
    wait_until(lambda: is_up_bare(place), 30)
    idle = [dial(place) for _ in range(100)]
    try:
        assert exchange(place, b"y" * 100000) == b"100000"
    finally:
        for s in idle:
            s.close()


def test_too_many_are_refused_and_it_goes_on(box):
    box.mount("base", "e", "--port", "3000")
    start(box, "e", "python3", "-c", COUNT)
    place = ports(box)[0]
    wait_until(lambda: is_up_bare(place), 30)
    held, refused = [], 0
    for _ in range(700):
        try:
            held.append(dial(place))
        except ConnectionError:
            refused += 1
    time.sleep(0.5)
    for s in held:
        s.setblocking(False)
        try:
            refused += s.recv(1) == b""
        except BlockingIOError:
            pass
        except ConnectionError:
            refused += 1
    assert 150 <= refused <= 200, refused  # 512 are served
    for s in held:
        s.close()
    wait_until(lambda: is_up_bare(place))


def test_nobody_listens(box):
    box.mount("base", "e", "--port", "3000")
    box.run("run", "e", "true")
    place = ports(box)[0]
    for where in (place, place["socket"]):
        began = time.monotonic()
        try:
            with dial(where) as s:
                s.sendall(b"x")
                assert s.recv(1) == b""
        except ConnectionError:
            pass
        assert time.monotonic() - began < 2


def test_ten_thousand_sockets_inside(box):
    """To its proxy, to its own server and to nowhere: others keep working."""
    for env in ("e", "f"):
        box.mount("base", env, "--port", "3000")
        start(box, env, "python3", "-c", COUNT)
        wait_until(lambda env=env: is_up_bare(ports(box, env)[0]), 30)
    hog = ("import resource, socket, time\n"
           "most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
           "resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n"
           "held, failed = [], 0\n"
           "for i in range(10000):\n"
           "    s = socket.socket()\n"
           "    s.setblocking(False)\n"
           "    s.connect_ex(('127.0.0.1', (31280, 3000, 1)[i % 3]))\n"
           "    held.append(s)\n"
           "print(len(held), flush=True)\n"
           "time.sleep(600)\n")
    child = box.spawn(["cowfs", "run", "e", "--", "python3", "-c", hog])
    try:
        assert child.stdout.readline() in (b"10000\n", b""), child
        assert is_up_bare(ports(box, "f")[0])
        assert box.run("run", "f", "--", "cat", "a.txt").out == "alpha\n"
        assert box.run("run", "e", "--", "cat", "a.txt").out == "alpha\n"
    finally:
        box.run("kill", "e")
        box.finish(child, 30)
    start(box, "e", "python3", "-c", COUNT)
    wait_until(lambda: is_up_bare(ports(box, "e")[0]), 30)


# --- variables ---------------------------------------------------------------

def test_variables_of_a_private_network(box):
    box.mount("base", "e", "--port", "3000", "--port", "9229")
    have = variables(box)
    assert (have["PORT"], have["COWFS_PORT_0"], have["COWFS_PORT_1"]) == \
        ("3000", "3000", "9229")
    assert have["COWFS_URL"] == "http://localhost:3000"
    assert "PGPORT" not in have and "COWFS_PORT_2" not in have
    assert variables(box, "e", "--env", "PORT=1")["PORT"] == "1"
    out = {r["name"]: r["value"]
           for r in box.run("--json", "env", "e").json()}
    assert out["COWFS_URL"] == ports(box)[0]["url"]
    assert out["PORT"] == "3000"


def test_variables_of_the_hosts_network(box):
    box.mount("base", "e", "--net", "host", "--port", "3000", "--port", "81")
    box.mount("base", "f", "--net", "host")
    have, other = variables(box), variables(box, "f")
    rows = ports(box)
    assert [(r["variable"], r.get("port")) for r in rows] == \
        [("COWFS_PORT_0", 3000), ("COWFS_PORT_1", 81), ("PGPORT", None)]
    for row in rows:
        assert have[row["variable"]] == str(row["host_port"])
        assert row["host"] == "127.0.0.1" and "socket" not in row
    assert have["PORT"] == have["COWFS_PORT_0"]
    assert have["COWFS_URL"] == f"http://localhost:{have['PORT']}"
    assert other["PORT"] and "COWFS_PORT_1" not in other
    given = [have["COWFS_PORT_0"], have["COWFS_PORT_1"], have["PGPORT"],
             other["PORT"], other["PGPORT"]]
    assert len(set(given)) == 5
    out = {r["name"]: r["value"]
           for r in box.run("--json", "env", "e").json()}
    assert {k: out[k] for k in ("PORT", "COWFS_PORT_1", "PGPORT")} == \
        {k: have[k] for k in ("PORT", "COWFS_PORT_1", "PGPORT")}
    start(box, "e", "python3", "-c", COUNT)
    wait_until(lambda: is_up_bare(rows[0]), 30)


def test_without_ports_there_are_none(box):
    box.mount("base", "e")
    have = variables(box)
    assert not [n for n in have if n.startswith("COWFS_PORT") or n == "PORT"]
    assert ports(box) == []
    assert box.run("ports", "e").out.count("\n") <= 1


# --- the network is kept -----------------------------------------------------

def lo_only(store, env="e", *options):
    """Whether a command has only a loopback device."""
    return store.run("run", *options, env, "--", "grep", "-c", ":",
                     "/proc/net/dev", expect=None).out == "1\n"


def has_proxy(store, env="e"):
    return "http_proxy" in variables(store, env)


@pytest.mark.parametrize("net", ["host", "private", "none"])
def test_the_network_is_kept(box, net):
    box.mount("base", "e", "--net", net)
    space = os.stat("/proc/self/ns/net").st_ino
    seen = box.run("run", "e", "--", "stat", "-Lc", "%i",
                   "/proc/self/ns/net").out
    assert (seen == f"{space}\n") == (net == "host")
    assert has_proxy(box) == (net == "private")
    box.run("umount", "e", "--keep")
    box.run("daemon", "stop")
    box.mount("e")
    assert has_proxy(box) == (net == "private")


def test_private_is_the_default(box):
    box.mount("base", "e")
    assert has_proxy(box) and lo_only(box)


def test_where_private_does_not_work_it_is_the_hosts(box):
    """With a bubblewrap that cannot make networks."""
    real = shutil.which("bwrap")
    fake = box.folder / "fake"
    fake.mkdir()
    (fake / "bwrap").write_text(
        "#!/bin/sh\n"
        "if grep -qz -- --unshare-net /proc/self/fd/$2; then\n"
        "  echo 'bwrap: loopback: Failed RTM_NEWADDR' >&2; exit 1\n"
        f"fi\nexec {real} \"$@\"\n")
    (fake / "bwrap").chmod(0o755)
    box.env["PATH"] = f"{fake}:" + box.env["PATH"]
    box.mount("base", "e", "--port", "3000")
    told = box.run("run", "e", "true")
    assert one_line_error(told) and "RTM_NEWADDR" in told.err
    assert "so it is the host's" in told.err and "doctor" in told.err
    assert box.run("run", "e", "true").err == ""  # the same sandbox
    have = variables(box)
    assert "http_proxy" not in have and have["PORT"] != "3000"
    assert ports(box)[0]["host_port"] == int(have["PORT"])
    assert variables(box) == have
    box.mount("base", "f", "--net", "private")
    got = box.run("run", "f", "true", expect=125)
    assert one_line_error(got) and "RTM_NEWADDR" in got.err


def test_run_with_another_network(box):
    box.mount("base", "e", "--net", "host")
    assert box.run("run", "--net", "none", "e", "true").code == 0
    for options in ((), ("--net", "host")):
        got = box.run("run", *options, "e", "true", expect=125)
        assert one_line_error(got) and "cowfs kill e" in got.err
    box.run("kill", "e")
    assert box.run("run", "e", "true").code == 0


def test_without_a_word_it_is_that_of_the_sandbox(box):
    box.mount("base", "e")
    box.run("run", "--net", "host", "e", "true")
    assert not has_proxy(box)
    assert ports(box)[-1]["variable"] == "PGPORT"


def test_new_with_ports(box):
    got = box.run("run", "--new", "base", "--port", "3000", "--net", "private",
                  "--", "sh", "-c", "echo $PORT; cowfs 2>&1; exit 0")
    assert got.out.startswith("3000\n")
    assert box.run("--json", "ps").out == ""
    assert box.run("gc").code == 0


# --- whether somebody listens ------------------------------------------------

HEARD = {"127.0.0.1": True, "0.0.0.0": True, "::1": True, "::": True,
         "::ffff:127.0.0.1": True, "127.0.0.2": False}


def test_whether_somebody_listens(box):
    numbers = range(3000, 3001 + len(HEARD))
    box.mount("base", "e", *(w for n in numbers for w in ("--port", str(n))))

    def told():
        return [r["listening"] for r in ports(box)]
    nobody = [False] * len(numbers)
    assert told() == nobody
    box.run("run", "e", "true")
    assert told() == nobody
    start(box, "e", PYTHON, "-c", LISTEN, "3001", *HEARD)
    wait_until(lambda: (box.path / "mnt/e/ready").exists(), 20)
    assert told() == [False, *HEARD.values()]
    assert [is_up_bare(p) for p in ports(box)] == told()
    lines = box.run("ports", "e").lines()
    column = lines[0].split().index("LISTENING")
    assert [line.split()[column] == "yes" for line in lines[1:]] == told()
    box.run("kill", "e")
    assert told() == nobody


def test_whether_somebody_listens_at_the_hosts(box):
    box.mount("base", "e", "--net", "host", "--port", "3000")
    assert [r["listening"] for r in ports(box)] == [False, False]
    place = ports(box)[0]
    start(box, "e", PYTHON, "-c", LISTEN, str(place["host_port"]),
          "127.0.0.1")
    wait_until(lambda: ports(box)[0]["listening"], 20)
    assert [r["listening"] for r in ports(box)] == [True, False]


# --- changing them -----------------------------------------------------------

def test_ports_survive_and_change(box):
    box.mount("base", "e", "--port", "3000")
    host = ports(box)[0]["host"]
    box.run("umount", "e", "--keep")
    box.run("daemon", "stop")
    assert ports(box)[0]["host"] == host
    assert not box.status()
    box.mount("e")
    assert ports(box)[0]["host"] == host
    box.mount("e", "--port", "4000", "--port", "3000")
    assert [r["port"] for r in ports(box)] == [4000, 3000]
    box.run("run", "e", "true")
    box.mount("e", "--port", "4000", "--port", "3000")  # nothing new
    got = box.run("mount", "e", "--port", "5000", expect=4)
    assert one_line_error(got) and "cowfs kill e" in got.err
    box.run("kill", "e")
    box.mount("e", "--port", "none")
    assert ports(box) == []


def test_fewer_ports_of_the_host_are_fewer_leases(box):
    box.mount("base", "e", "--net", "host", "--port", "1", "--port", "2")
    before = [r["host_port"] for r in ports(box)]
    box.mount("e", "--port", "2")
    after = [r["host_port"] for r in ports(box)]
    assert after == [before[0], before[2]]


@pytest.mark.parametrize("args", [
    ["--port", "0"], ["--port", "65536"], ["--port", "x"], ["--port", ""],
    ["--port", "3000", "--port", "3000"], ["--port", "31280"],
    ["--port", "none", "--port", "1"], ["--net", "moon"],
    ["--net", "none", "--port", "80"],
    [w for n in range(1, 66) for w in ("--port", str(n))]])
def test_wrong_usage(box, args):
    assert one_line_error(box.run("mount", "base", "e", *args, expect=2))
    assert box.run("--json", "ps").out == ""


def test_port_belongs_to_new(box):
    box.mount("base", "e")
    got = box.run("run", "--port", "80", "e", "true", expect=125)
    assert one_line_error(got) and "cowfs mount" in got.err


def test_unknown_environments(box):
    assert one_line_error(box.run("ports", "nobody", expect=3))
    assert one_line_error(box.run("ports", "a b", expect=2))


# --- its end ------------------------------------------------------------------

def test_the_relay_is_started_anew_with_its_ports(box):
    box.mount("base", "e", "--port", "3000")
    start(box, "e", "python3", "-c", COUNT)
    place = ports(box)[0]
    wait_until(lambda: is_up_bare(place), 30)
    os.kill(relays_of(box)[0], signal.SIGKILL)
    wait_until(lambda: not is_up_bare(place))
    box.run("run", "e", "true")
    assert is_up_bare(place)
    assert is_up_bare(place["socket"])


def test_sockets_go_with_the_sandbox(box):
    box.mount("base", "e", "--port", "3000")
    box.run("run", "e", "true")
    place = ports(box)[0]
    assert os.path.exists(place["socket"])
    assert os.stat(place["socket"]).st_mode & 0o777 == 0o700
    box.run("kill", "e")
    assert not os.path.exists(place["socket"])
    with pytest.raises(ConnectionRefusedError):
        dial(place)
