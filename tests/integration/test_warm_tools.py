# SPDX-License-Identifier: MIT
"""Warm caches as real clients see them, and trees that were built before.

Clients are the machine's own, with its settings; what they fetch on the host
is what nobody may fetch again: environments have no network (--net none).
"""
import functools
import hashlib
import http.server
import json
import pathlib
import shutil
import subprocess
import threading
import zipfile

import pytest

from conftest import skip_unless
from warm_case import VARIABLES, host_listing, put

# Of the machine's user: where things are fetched from, and tool chains.
SETTINGS = (".npmrc", ".config/go/env", ".cargo/config.toml",
            ".m2/settings.xml", ".config/pip/pip.conf")
CHAINS = (".cargo/bin", ".rustup")
PYTHON = "/usr/bin/python3"


class Workshop:
    """A project, a HOME whose caches its clients have filled, a store."""

    def __init__(self, store):
        self.store = store
        self.home = store.folder / "home"
        self.top = store.folder / "project"
        self.top.mkdir()
        real = pathlib.Path.home()
        for name in SETTINGS:
            if (real / name).exists():
                put(self.home, {name: (real / name).read_text()})
        for name in CHAINS:
            if (real / name).exists():
                (self.home / name).parent.mkdir(parents=True, exist_ok=True)
                (self.home / name).symlink_to(real / name)
        env = store.env
        for name in VARIABLES:
            env.pop(name, None)
        env.pop("PYTHONDONTWRITEBYTECODE")
        env.update(HOME=str(self.home), MAVEN_OPTS=f"-Duser.home={self.home}",
                   PATH=f"{self.home}/.cargo/bin:" + env["PATH"])

    def host(self, *argv, limit=600, fetches=False):
        """A command in the project, outside."""
        child = self.store.spawn(argv, cwd=self.top)
        result = self.store.finish(child, limit)
        if fetches:
            skip_unless(result.code == 0, "net")
        assert result.code == 0, result
        return result.out

    def load(self, *args):
        self.store.load(self.top, "base", *args)

    def run(self, env, *argv, options=("--net", "none"), expect=0,
            limit=600):
        return self.store.run("run", *options, env, "--", *argv,
                              expect=expect, limit=limit)


@pytest.fixture
def shop(cowfs):
    skip_unless(shutil.which("bwrap"), "bwrap")
    return Workshop(cowfs)


def fetches_nothing(shop, argv, cold):
    """Two warm environments, one after the other, do without the network;
    one without caches does not."""
    before = host_listing(shop.home)
    shop.store.mount("base", "cold")
    result = shop.run("cold", *argv, expect=None)
    assert result.code not in (0, 125, 126, 127), result
    assert cold in result.out + result.err, result
    for env in ("e", "f"):
        shop.store.mount("base", env)
        shop.run(env, *argv, options=("--net", "none", "--warm"))
    assert host_listing(shop.home) == before
    shop.store.run("umount", "--all", "--discard")


# --- clients -----------------------------------------------------------------

def test_npm_ci_fetches_nothing(shop):
    skip_unless(shutil.which("npm"), "npm")
    put(shop.top, {"package.json": json.dumps({
        "name": "p", "version": "1.0.0", "private": True,
        "dependencies": {"is-odd": "3.0.1"}})})
    # Without places in the lock file npm asks for them again.
    shop.host("npm", "install", "--no-audit", "--no-fund",
              "--omit-lockfile-registry-resolved=false", fetches=True)
    shop.load("--exclude", "node_modules")
    ci = "npm ci --prefer-offline --no-audit --no-fund --fetch-retries=0"
    fetches_nothing(
        shop, ["sh", "-c", f"{ci} --offline && test -f "
                           "node_modules/is-number/package.json"],
        cold="ENOTCACHED")


def test_cargo_build_fetches_nothing(shop):
    skip_unless(shutil.which("cargo"), "cargo")
    put(shop.top, {
        "Cargo.toml": '[package]\nname = "p"\nversion = "0.1.0"\n'
                      'edition = "2021"\n[dependencies]\n'
                      'itoa = "=1.0.11"\n',
        "src/main.rs": "fn main() {\n    println!(\"{}\", "
                       "itoa::Buffer::new().format(42));\n}\n"})
    shop.host("cargo", "fetch", fetches=True)
    shop.load()
    fetches_nothing(shop, ["sh", "-c", "cargo build --offline && "
                                       "target/debug/p | grep -qx 42"],
                    cold="offline")


@pytest.mark.long
def test_go_build_fetches_nothing(shop):
    skip_unless(shutil.which("go"), "go")
    put(shop.top, {
        "go.mod": "module p\n\ngo 1.18\n\nrequire rsc.io/quote v1.5.2\n",
        "main.go": "package main\n\nimport (\n\t\"fmt\"\n\t\"rsc.io/quote\"\n"
                   ")\n\nfunc main() { fmt.Println(quote.Glass()) }\n"})
    shop.store.env["GOFLAGS"] = "-mod=mod"
    shop.host("go", "build", "-o", "p", ".", fetches=True)
    shop.load("--exclude", "p")
    fetches_nothing(
        shop, ["env", "GOFLAGS=-mod=mod", "GOPROXY=off", "sh", "-c",
               "go build -o p . && ./p | grep -q glass"],
        cold="GOPROXY=off")
    # The modules' files are read-only, and can be thrown away all the same.
    shop.store.mount("base", "e")
    shop.run("e", "sh", "-c", "go clean -modcache -cache && "
                              "test ! -e ~/go/pkg/mod",
             options=("--warm",))


@pytest.mark.long
def test_maven_fetches_nothing(shop):
    skip_unless(shutil.which("mvn"), "mvn")
    put(shop.top, {
        "pom.xml": "<project><modelVersion>4.0.0</modelVersion>"
                   "<groupId>g</groupId><artifactId>a</artifactId>"
                   "<version>1</version><properties>"
                   "<maven.compiler.source>17</maven.compiler.source>"
                   "<maven.compiler.target>17</maven.compiler.target>"
                   "</properties></project>\n",
        "src/main/java/A.java": "class A {}\n"})
    shop.host("mvn", "-q", "-B", "compile", fetches=True, limit=900)
    shutil.rmtree(shop.top / "target")
    shop.load()
    opts = f"MAVEN_OPTS=-Duser.home={shop.home}"
    fetches_nothing(
        shop, ["env", opts, "sh", "-c", "mvn -q -B -o compile && "
                                        "test -f target/classes/A.class"],
        cold="offline")


# --- pip, with an index of our own -------------------------------------------

def make_wheel(folder):
    folder.mkdir()
    name = "cowfs_probe-1.0-py3-none-any.whl"
    info = "cowfs_probe-1.0.dist-info"
    with zipfile.ZipFile(folder / name, "w") as z:
        z.writestr("cowfs_probe.py", "answer = 42\n")
        z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\n"
                                       "Name: cowfs-probe\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\n"
                                    "Root-Is-Purelib: true\n"
                                    "Tag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "cowfs_probe.py,,\n"
                                     f"{info}/METADATA,,\n{info}/WHEEL,,\n"
                                     f"{info}/RECORD,,\n")
    page = folder / "cowfs-probe"
    page.mkdir()
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (page / "index.html").write_text(
        f'<a href="../{name}#sha256={digest}">{name}</a>')
    return name


class Index(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        if self.path.endswith(".whl"):
            self.send_header("Cache-Control", "max-age=365000000, immutable")
        super().end_headers()

    def log_message(self, format, *args):
        self.server.asked.append(self.path)


@pytest.fixture
def index(tmp_path):
    wheel = make_wheel(tmp_path / "index")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(
            Index, directory=tmp_path / "index"))
    server.asked = []
    server.wheel = "/" + wheel
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_pip_takes_it_from_its_cache(shop, index):
    have = subprocess.run([PYTHON, "-m", "pip", "--version"],
                          capture_output=True, check=False)
    skip_unless(have.returncode == 0, "pip")
    put(shop.top, {"a": "a"})
    shop.load()
    host = f"127.0.0.1:{index.server_port}"
    # What comes without TLS is cached from trusted hosts only.
    pip = [PYTHON, "-m", "pip", "--isolated", "install", "-q", "--target",
           "lib", "--no-deps", "--trusted-host", host, "--index-url",
           f"http://{host}/", "cowfs-probe==1.0"]
    shop.host(*pip)
    assert index.asked.count(index.wheel) == 1
    script = ("\"$@\" && PYTHONPATH=lib " + PYTHON +
              " -c 'import cowfs_probe; assert cowfs_probe.answer == 42'")
    for env, options, times in (("cold", (), 2), ("e", ("--warm",), 2),
                                ("f", (), 2)):
        shop.store.mount("base", env, "--net", "host")
        shop.run(env, "sh", "-c", script, "sh", *pip, options=options)
        assert index.asked.count(index.wheel) == times, env


# --- warm means warm ---------------------------------------------------------

def build(shop, argv, quiet, redo, times=("--times",)):
    """A command that finds everything done in a fresh environment: its output
    says so, and nothing was written. After redo it does work."""
    store = shop.store
    store.mount("base", "done")
    result = shop.run("done", "sh", "-c", argv)
    assert quiet(result.out + result.err), result
    assert store.run("diff", *times, "done").out == "", argv
    store.run("umount", "done")
    if redo:
        store.mount("base", "redo")
        shop.run("redo", "sh", "-c", redo)
        result = shop.run("redo", "sh", "-c", argv, expect=None)
        assert not quiet(result.out + result.err), result
        assert store.run("diff", "--times", "redo").out != "", redo
        store.run("umount", "redo", "--discard")


def builds_at_another_path(shop, argv, quiet):
    """What remembers absolute paths does its work again there."""
    shop.store.mount("base", "away")
    result = shop.run("away", "sh", "-c", argv,
                      options=("--net", "none", "--at", "/workspace/p"))
    assert not quiet(result.out + result.err), result
    shop.store.run("umount", "away", "--discard")


def test_make_has_nothing_to_do(shop):
    skip_unless(shutil.which("make") and shutil.which("cc"), "make")
    put(shop.top, {
        "Makefile": "prog: a.o b.o\n\tcc -o $@ $^\n%.o: %.c x.h\n"
                    "\tcc -c -o $@ $<\n",
        "a.c": '#include "x.h"\nint main(void) { return b(); }\n',
        "b.c": '#include "x.h"\nint b(void) { return 0; }\n',
        "x.h": "int b(void);\n"})
    shop.host("make")
    shop.load()
    build(shop, "make", lambda out: "'prog' is up to date" in out,
          "touch b.c")
    build(shop, "make -q", lambda out: out == "", None)


def test_cargo_compiles_nothing(shop):
    skip_unless(shutil.which("cargo"), "cargo")
    put(shop.top, {
        "Cargo.toml": '[workspace]\nmembers = ["p", "q"]\nresolver = "2"\n',
        "p/Cargo.toml": '[package]\nname = "p"\nversion = "0.1.0"\n'
                        'edition = "2021"\n[dependencies]\n'
                        'q = { path = "../q" }\n',
        "p/src/main.rs": "fn main() {\n    q::q();\n}\n",
        "q/Cargo.toml": '[package]\nname = "q"\nversion = "0.1.0"\n'
                        'edition = "2021"\n',
        "q/src/lib.rs": "pub fn q() {}\n"})
    shop.host("cargo", "build", "--offline")
    shop.load()

    def quiet(out):
        return "Compiling" not in out and "Finished" in out
    # Cargo may write target/debug/p.d once more as it was.
    build(shop, "cargo build --offline", quiet, "touch q/src/lib.rs", ())


def test_pytest_compiles_nothing(shop):
    put(shop.top, {"test_it.py": "import mod\n\n\ndef test_it():\n"
                                 "    assert mod.one() == 1\n",
                   "mod.py": "def one():\n    return 1\n"})
    test = f"{PYTHON} -m pytest -q -p no:cacheprovider"
    shop.host(*test.split())
    assert len(list((shop.top / "__pycache__").iterdir())) == 2
    shop.load()
    build(shop, test, lambda out: "1 passed" in out, None)
    # Python tells by size and time what has changed.
    shop.store.mount("base", "redo")
    shop.run("redo", "sh", "-c", "touch -d @1 test_it.py mod.py; " + test)
    changed = shop.store.run("diff", "redo").lines()
    assert len(changed) == 2 and all("__pycache__" in c for c in changed)


@pytest.mark.long
def test_go_compiles_nothing(shop):
    skip_unless(shutil.which("go"), "go")
    put(shop.top, {"go.mod": "module p\n\ngo 1.18\n",
                   "q/q.go": "package q\n\nfunc Q() int { return 1 }\n",
                   "main.go": "package main\n\nimport \"p/q\"\n\n"
                              "func main() { println(q.Q()) }\n"})
    shop.host("go", "build", "-v", "./...")
    shop.load()
    shop.store.run("import", "--cache",
                   f"go-build={shop.home}/.cache/go-build")

    def quiet(out):
        return "p" not in out.split()
    build(shop, "go build -v ./...", quiet,
          "echo '// new' >> q/q.go; echo 'var x = q.Q()' >> main.go")
    builds_at_another_path(shop, "go build -v ./...", quiet)


@pytest.mark.long
def test_tsc_and_npm_ls_do_nothing(shop):
    skip_unless(shutil.which("npm"), "npm")
    put(shop.top, {
        "package.json": json.dumps({
            "name": "p", "version": "1.0.0", "private": True,
            "dependencies": {"typescript": "5.4.5"}}),
        "tsconfig.json": json.dumps({
            "compilerOptions": {"incremental": True, "outDir": "out",
                                "module": "commonjs"},
            "include": ["src"]}),
        "src/a.ts": "import { b } from './b';\nexport const a = b + 1;\n",
        "src/b.ts": "export const b: number = 1;\n"})
    shop.host("npm", "install", "--no-audit", "--no-fund", fetches=True)
    tsc = "node_modules/.bin/tsc --listEmittedFiles"
    assert "TSFILE" in shop.host(*tsc.split())
    shop.load()
    build(shop, tsc, lambda out: "TSFILE" not in out,
          "echo 'export const c = 2;' >> src/b.ts")
    build(shop, "npm ls --all", lambda out: "typescript@5.4.5" in out and
          "UNMET" not in out, "rm -r node_modules/typescript")
