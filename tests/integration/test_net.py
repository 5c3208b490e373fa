# SPDX-License-Identifier: MIT
"""run --net private: a network of its own, and a proxy to the world."""
import http.server
import os
import shutil
import signal
import socket
import threading

import pytest

import mountpoint
from conftest import skip_unless
from helpers import one_line_error, wait_until
from port_case import holders, relays_of

GET = """
import http.client, sys
from urllib.parse import urlsplit
u = urlsplit(sys.argv[1])
c = http.client.HTTPConnection("127.0.0.1", 31280, timeout=20)
if sys.argv[2:] == ["tunnel"]:
    c.set_tunnel(u.hostname, u.port)
    c.request("GET", u.path)
else:
    c.request("GET", sys.argv[1])
r = c.getresponse()
print(r.status, r.read().decode().strip())
"""
CONNECT = """
import socket, sys
host = sys.argv[1]
family = socket.AF_UNIX if host[0] == "@" else socket.AF_INET
s = socket.socket(family)
s.settimeout(10)
s.connect("\\0" + host[1:] if host[0] == "@" else (host, int(sys.argv[2])))
print("done")
"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"page {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def site():
    """A server on the host's loopback; its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def inside(box, *argv, allow=(), env="e", **kw):
    options = [w for host in allow for w in ("--allow-host", host)]
    return box.run("run", "--net", "private", *options, env, "--", *argv, **kw)


def get(box, url, *how, **kw):
    return inside(box, "python3", "-c", GET, url, *how, **kw).out


def relays(box):
    """Living relays of this test's store."""
    return [pid for env in os.listdir(box.path / "envs")
            for pid in relays_of(box, env)]


# --- the proxy ---------------------------------------------------------------

@pytest.mark.parametrize("how", [[], ["tunnel"]])
def test_an_allowed_host_is_reached(box, site, how):
    out = get(box, f"http://127.0.0.1:{site}/x", *how,
              allow=[f"127.0.0.1:{site}"])
    assert out == "200 page /x\n"


def test_the_hosts_own_addresses_are_refused(box, site):
    for name in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"):
        assert get(box, f"http://{name}:{site}/").startswith("403 cowfs: ")
    assert get(box, "http://169.254.169.254/").startswith("403 cowfs: ")


def test_a_list_refuses_what_is_not_on_it(box, site):
    allow = ["*.example.org", f"127.0.0.1:{site}"]
    assert get(box, f"http://127.0.0.1:{site}/", allow=allow)[:3] == "200"
    for url in (f"http://127.0.0.1:{site ^ 1}/", "http://example.com/",
                "http://xexample.org/"):
        assert get(box, url, allow=allow)[:3] == "403", url


def test_junk_to_the_proxy(box, site):
    script = ("import socket\n"
              "for t in (b'\\0' * 90000, b'GET / HTTP/1.1\\r\\n\\r\\n',"
              " b'\\r\\n\\r\\n', b'CONNECT x HTTP/1.1\\r\\n\\r\\n',"
              " b'CONNECT :1 H\\r\\n\\r\\n', b'GET http://@:/ H\\r\\n\\r\\n'):\n"
              "    s = socket.create_connection(('127.0.0.1', 31280), 20)\n"
              "    try:\n"
              "        s.sendall(t)\n"
              "        print(s.recv(12).decode())\n"
              "    except ConnectionError:\n"
              "        print('HTTP/1.1 400')\n")
    allow = [f"127.0.0.1:{site}"]
    out = inside(box, "python3", "-c", script, allow=allow).out
    assert out == "HTTP/1.1 400\n" * 6
    assert get(box, f"http://127.0.0.1:{site}/", allow=allow)[:3] == "200"


def test_many_connections_do_not_stop_it(box, site):
    script = ("import socket\n"
              "held = [socket.create_connection(('127.0.0.1', 31280), 20)\n"
              "        for i in range(600)]\n")
    allow = [f"127.0.0.1:{site}"]
    inside(box, "python3", "-c", script, allow=allow)
    wait_until(lambda: get(box, f"http://127.0.0.1:{site}/", allow=allow,
                           expect=None)[:3] == "200")


@pytest.mark.long
def test_npm_and_pip_work_through_it(box):
    """From wherever this machine's settings have them get packages."""
    skip_unless(shutil.which("npm") and shutil.which("pip"), "npm and pip")
    config = os.path.expanduser("~/.npmrc")
    if os.path.exists(config):
        shutil.copy(config, box.folder / "home")
    pip = inside(box, "pip", "download", "--no-deps", "--no-cache-dir", "-d",
                 "/tmp/wheels", "six")
    assert "six" in pip.out
    npm = inside(box, "sh", "-c", "cd /tmp && npm pack --silent is-number")
    assert npm.out.startswith("is-number-")
    box.run("kill", "e")
    cut = box.run(
        "run", "--net", "none", "e", "--", "pip", "download", "--no-deps",
        "--no-cache-dir", "--retries", "0", "-d", "/tmp/wheels", "six",
        expect=None)
    assert cut.code != 0


# --- the network of its own --------------------------------------------------

def test_each_has_its_ports_and_commands_share_them(box):
    box.mount("base", "f")
    listen = "python3 -m http.server --bind 127.0.0.1 31999 >/dev/null 2>&1"
    for env in ("e", "f"):
        inside(box, "sh", "-c", f"{listen} &", env=env)
    for env in ("e", "f"):
        wait_until(lambda env=env: inside(
            box, "python3", "-c", CONNECT, "127.0.0.1", "31999", env=env,
            expect=None).out == "done\n")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", 31999), 5)


def test_the_hosts_services_are_cut_off(box, site):
    name = f"cowfs-net-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0" + name)
        s.listen()
        for target in (["127.0.0.1", str(site)], ["@" + name]):
            argv = ["python3", "-c", CONNECT, *target]
            outside = box.finish(box.spawn(argv), 30)
            assert outside.out == "done\n", outside
            got = inside(box, *argv, expect=None)
            assert got.code == 1 and "refused" in got.err, got


def test_another_kind_is_refused(box):
    inside(box, "true")
    got = box.run("run", "--net", "none", "e", "--", "true", expect=125)
    assert "runs with other options" in got.err
    assert "cowfs kill e" in got.err


@pytest.mark.parametrize("text", ["", "a b", "*x", "x:0", "x:65536",
                                  "x:", "http://x", "x:1:2", "x" * 300])
def test_junk_rules(box, text):
    one_line_error(inside(box, "true", allow=[text], expect=125))


def test_a_rule_needs_the_private_network(box):
    for net in ("host", "none"):
        got = box.run("run", "--net", net, "--allow-host", "x", "e", "--",
                      "true", expect=125)
        assert "--net private" in got.err
    box.run("run", "--allow-host", "x", "e", "--", "true")


# --- it ends -----------------------------------------------------------------

@pytest.mark.parametrize("verb", ["kill", "umount"])
def test_the_relay_ends_with_the_sandbox(box, verb):
    inside(box, "true")
    assert len(relays(box)) == 1
    inside(box, "true")
    first = relays(box)
    assert len(first) == 1
    box.run(verb, "e")
    assert relays(box) == [] and not mountpoint.alive(first[0])


def test_a_killed_relay_is_started_anew(box, site):
    allow = [f"127.0.0.1:{site}"]
    inside(box, "true", allow=allow)
    first = relays(box)
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: not relays(box))
    assert get(box, f"http://127.0.0.1:{site}/", allow=allow)[:3] == "200"
    assert relays(box) != first


def test_the_relay_ends_when_the_sandbox_is_killed(box):
    inside(box, "true")
    pids = holders(box.path / "envs/e/box/lock")
    assert pids
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not relays(box))
