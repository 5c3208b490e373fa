# SPDX-License-Identifier: MIT
"""db: PostgreSQL as data of a snapshot; SQLite needs nothing."""
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

import pytest

import mountpoint
from cluster import BIN, BINS, USER, make_cluster
from conftest import skip_unless
from helpers import one_line_error, wait_until


@pytest.fixture(scope="module")
def seed():
    """A cluster with a table t of 1000 rows; made once."""
    skip_unless(BINS, "postgresql")
    skip_unless(shutil.which("bwrap"), "bwrap")
    skip_unless(os.geteuid() == 0, "root")
    top = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-t-"))
    top.chmod(0o755)
    data = top / "pgdata"
    make_cluster(data,
                 "create table t as select generate_series(1, 1000) as n")
    yield data
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def imported(seed):
    """A store with a snapshot of a tree that has the cluster var/pg; made
    once, for copies."""
    store = mountpoint.Store()
    store.tree = store.folder / "tree"
    (store.tree / "var").mkdir(parents=True)
    subprocess.run(["cp", "-a", str(seed), store.tree / "var/pg"], check=True)
    store.load(store.tree)
    yield store
    assert not store.close()


@pytest.fixture
def db(at_home, imported):
    """An environment e of it."""
    subprocess.run(["cp", "-a", str(imported.path), at_home.path], check=True)
    at_home.tree = imported.tree
    at_home.point = at_home.mount("base", "e")
    return at_home


def sql(store, env, text, **kw):
    return store.run("run", env, "--", "psql", "-XAtqc", text, **kw).out


def rows(store, env):
    return int(sql(store, env, "select count(*) from t"))


def error(result):
    assert one_line_error(result), result
    return result.err


def status(store, env):
    return store.run("--json", "db", "status", env).json()[0]


# --- life --------------------------------------------------------------------

@pytest.mark.parametrize("options", [["--port", "5432"], ["--net", "host"]])
def test_later_commands_find_it(db, options):
    db.mount("e", *options)
    db.run("db", "start", "e")
    assert rows(db, "e") == 1000
    # By each of the ways in which programs look.
    assert db.run("run", "e", "--", "sh", "-c",
                  'psql "$DATABASE_URL" -XAtc "select count(*) from t"'
                  ).out == "1000\n"
    out = db.run("run", "e", "--", "sh", "-c",
                 'ls -d "$PGDATA"; echo $PGHOST $PGPORT').out.split()
    state = status(db, "e")
    assert out == [f"{db.tree}/var/pg", "/tmp/cowfs-db", str(state["port"])]
    assert (state["state"], state["dir"], state["kind"]) == \
        ("running", "var/pg", "postgresql")
    # The one of the host, with what cowfs env tells.
    found = db.finish(db.spawn(
        ["sh", "-c", 'eval "$(cowfs env e)"; psql -XAtc '
         '"select count(*) from t"']), 30)
    assert found.out == "1000\n", found


@pytest.mark.long  # a time, for a machine of its own
def test_it_is_ready_in_a_second(db):
    took = []
    for _ in range(3):
        db.run("run", "e", "true")
        began = time.monotonic()
        db.run("db", "start", "e")
        took.append(time.monotonic() - began)
        db.run("db", "stop", "e")
    print("ready after", sorted(took))
    assert min(took) <= 1.0


def test_stop_ends_it_cleanly(db):
    db.run("db", "start", "e")
    pid = status(db, "e")["pid"]
    db.run("db", "stop", "e")
    assert not mountpoint.alive(pid)
    assert status(db, "e")["state"] == "stopped"
    assert "PGPORT" not in db.run("run", "e", "env").out
    assert "database system is shut down" in \
        (db.path / "envs/e/box/db.log").read_text()
    assert error(db.run("db", "stop", "e", expect=3))
    db.run("db", "start", "e")
    assert rows(db, "e") == 1000


@pytest.mark.parametrize("verb", ["kill", "umount"])
def test_the_end_of_the_sandbox_is_a_clean_one(db, verb):
    db.run("db", "start", "e")
    sql(db, "e", "insert into t values (0)")
    pid = status(db, "e")["pid"]
    copy = db.folder / "db.log"
    os.link(db.path / "envs/e/box/db.log", copy)
    db.run(verb, "e")
    assert not mountpoint.alive(pid)
    text = copy.read_text()
    assert "received fast shutdown request" in text
    assert text.endswith("database system is shut down\n")
    if verb == "kill":
        db.run("db", "start", "e")
        assert rows(db, "e") == 1001
        assert "not properly shut down" not in copy.read_text()


@pytest.mark.parametrize("net", ["private", "host"])
def test_two_environments_each_with_its_own_data(db, net):
    db.mount("e", "--net", net)
    db.mount("base", "f", "--net", net)
    for env in ("e", "f"):
        db.run("db", "start", env)
    same = status(db, "e")["port"] == status(db, "f")["port"]
    assert same == (net == "private")
    sql(db, "e", "drop table t")
    sql(db, "f", "insert into t values (0)")
    assert rows(db, "f") == 1001
    assert "t\n" not in sql(db, "e", "select relname from pg_class "
                            "where relname = 't'")
    db.run("umount", "e", "--discard")
    assert rows(db, "f") == 1001


def test_a_killed_server_starts_again_with_all_that_was_committed(db):
    db.run("db", "start", "e")
    sql(db, "e", "insert into t select generate_series(1, 500)")
    pid = status(db, "e")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not mountpoint.alive(pid))
    assert status(db, "e")["state"] == "stopped"
    db.run("db", "start", "e")
    assert rows(db, "e") == 1500


def test_a_server_that_is_not_on_record_is_taken_over(db):
    """What a `db start` leaves that was killed before its last step."""
    db.run("db", "start", "e")
    sql(db, "e", "insert into t values (0)")
    before = status(db, "e")
    (db.path / "envs/e/box/db").unlink()
    assert status(db, "e")["state"] == "stopped"
    assert "not on record" in error(db.run("db", "reset", "e", expect=3))
    assert "runs already" in error(
        db.run("db", "start", "e", "--port", "1", expect=3))
    db.run("db", "start", "e")
    assert status(db, "e") == before
    assert rows(db, "e") == 1001


def test_a_start_that_is_killed(db):
    """At any time; the next one finds or makes a server."""
    db.run("run", "e", "true")
    seed = int(os.environ.get("COWFS_KILLS_SEED", time.time_ns()))
    print("COWFS_KILLS_SEED", seed)
    draw = random.Random(seed)
    for _ in range(int(os.environ.get("COWFS_KILLS_ROUNDS", "4"))):
        child = db.spawn(["cowfs", "db", "start", "e"])
        time.sleep(draw.random() / 2)
        os.kill(child.pid, signal.SIGKILL)
        # The lock is held until its last child has seen that.
        wait_until(lambda: db.run("db", "status", "e", expect=None).code == 0)
        again = db.run("db", "start", "e", expect=None)
        assert again.code == 0 or "runs already" in again.err, again
        assert rows(db, "e") == 1000
        db.run("db", "stop", "e")
        db.finish(child, 10)


def test_a_server_of_ones_own_is_left_alone(db):
    db.run("run", "e", "--user", USER, "--", f"{BIN}/pg_ctl", "-D", "var/pg",
           "-w", "-s", "-l", "/dev/null", "-o",
           "-k /tmp -c listen_addresses=", "start")
    assert "runs already" in error(db.run("db", "start", "e", expect=3))
    assert db.run("run", "e", "--", "psql", "-h", "/tmp", "-U", USER, "-XAtc",
                  "select count(*) from t").out == "1000\n"


def test_a_snapshot_of_a_running_cluster_recovers(db):
    """The sandbox dies at once; what is rescued has postmaster.pid."""
    db.run("db", "start", "e")
    sql(db, "e", "insert into t select generate_series(1, 500)")
    for pid in mountpoint.boxes_of(db.path):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not mountpoint.boxes_of(db.path))
    assert "postmaster.pid" in db.inside(db.point, ["ls", "var/pg"]).out
    db.run("umount", "e", "--rescue-ignored", "all")
    rescue = db.run("--json", "rescue", "ls").json()[0]["rescue"]
    db.run("rescue", "restore", rescue, "g")
    db.run("db", "start", "g", "var/pg")
    assert rows(db, "g") == 1500


# --- reset -------------------------------------------------------------------

@pytest.mark.parametrize("running", [True, False])
def test_reset_goes_back_to_the_snapshot(db, running):
    db.run("db", "start", "e")
    port = status(db, "e")["port"]
    sql(db, "e", "drop table t; create table u (n int)")
    if not running:
        db.run("db", "stop", "e")
    began = time.monotonic()
    db.run("db", "reset", "e")
    print("reset took", time.monotonic() - began)
    assert status(db, "e")["state"] == ("running" if running else "stopped")
    if running:
        assert status(db, "e")["port"] == port
    else:
        left = db.inside(db.point, ["diff", "-r", "var/pg",
                                    db.tree / "var/pg"]).out
        assert not left
        db.run("db", "start", "e")
    assert rows(db, "e") == 1000
    assert [r["name"] for r in db.run("--json", "ps").json()] == ["e"]


def test_reset_leaves_the_rest_alone(db):
    db.sh(db.point,
          "echo x > own; rm var/pg/PG_VERSION; ln -s /etc var/pg/out; "
          "mkdir var/pg/deep; echo y > var/pg/deep/file")
    result = db.run("db", "reset", "e", "var/pg", expect=3)
    assert "PG_VERSION" in result.err
    db.sh(db.point, "echo 15 > var/pg/PG_VERSION")
    db.run("db", "reset", "e", "var/pg")
    have = db.inside(db.point, ["sh", "-c", "ls; ls var/pg; cat own"]).out
    assert "own\n" in have and have.endswith("x\n")
    assert "deep" not in have and "out" not in have.split()


# --- users -------------------------------------------------------------------

def test_data_of_root_go_to_the_servers_user(cowfs, seed, tmp_path):
    cowfs.env["HOME"] = str(tmp_path)
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["cp", "-r", str(seed), tree / "pg"], check=True)
    (tree / "pg").chmod(0o755)
    cowfs.load(tree)
    cowfs.mount("base", "e")
    cowfs.run("db", "start", "e")
    assert rows(cowfs, "e") == 1000
    assert (tree / "pg/PG_VERSION").stat().st_uid == 0


# --- bad input ---------------------------------------------------------------

def test_which_directory(db, seed):
    for args, word in ((("nowhere",), "nowhere"), (("/etc",), "/etc"),
                       (("var",), "PG_VERSION"), (("../..",), "../..")):
        result = db.run("db", "start", "e", *args, expect=None)
        assert result.code in (2, 3) and word in error(result)
    db.inside(db.point, ["ln", "-s", "var/pg", "link"])
    assert "link" in error(db.run("db", "start", "e", "link",
                                           expect=3))
    db.inside(db.point, ["cp", "-a", "var/pg", "second"])
    err = error(db.run("db", "start", "e", expect=2))
    assert "second" in err and "var/pg" in err
    db.inside(db.point, ["rm", "-rf", "second", "var/pg"])
    assert "no database" in error(db.run("db", "start", "e",
                                                  expect=3))


def test_no_programs_of_its_version(db):
    db.inside(db.point, ["sh", "-c", "echo 11 > var/pg/PG_VERSION"])
    assert "postgresql-11" in error(db.run("db", "start", "e",
                                                    expect=3))
    db.inside(db.point, ["sh", "-c", "echo x > var/pg/PG_VERSION"])
    assert "PG_VERSION" in error(db.run("db", "start", "e",
                                                 expect=3))


def test_a_damaged_directory(db):
    db.inside(db.point, ["sh", "-c", "echo bad > var/pg/global/pg_control"])
    result = db.run("db", "start", "e", expect=3)
    assert "does not start" in result.err and "db.log" in result.err
    db.inside(db.point, ["rm", "var/pg/global/pg_control"])
    assert "damaged" in error(db.run("db", "start", "e", expect=3))


def test_it_runs_already(db):
    db.run("db", "start", "e")
    assert "already" in error(db.run("db", "start", "e", expect=3))
    assert rows(db, "e") == 1000


def test_the_port_is_leased(db):
    """With the host's network; another one when it was taken."""
    db.mount("e", "--net", "host")

    def leased():
        return db.run("--json", "ports", "e").json()[-1]["host_port"]

    first = leased()
    db.run("db", "start", "e")
    assert status(db, "e")["port"] == leased() == first
    assert f"PGPORT={first}\n" in db.run("run", "e", "env").out
    db.run("db", "stop", "e")
    assert f"PGPORT={first}\n" in db.run("run", "e", "env").out
    with socket.create_server(("127.0.0.1", first)):
        db.run("db", "start", "e")
        assert status(db, "e")["port"] == leased() != first
        assert rows(db, "e") == 1000


def test_it_is_reached_from_the_host_where_it_is_published(db):
    db.run("db", "start", "e")
    told = db.run("env", "e").out
    assert "PGPORT" not in told and "DATABASE_URL" not in told
    db.run("kill", "e")
    db.mount("e", "--port", "5432")
    db.run("db", "start", "e")
    place = db.run("--json", "ports", "e").json()[0]
    told = {r["name"]: r["value"] for r in db.run("--json", "env", "e").json()}
    assert told["PGHOST"] == place["host"]
    assert f"@{place['host']}:5432/" in told["DATABASE_URL"]
    assert db.finish(db.spawn(
        ["psql", told["DATABASE_URL"], "-XAtc", "select count(*) from t"]),
        30).out == "1000\n"


def test_a_port_that_is_taken(db):
    db.mount("e", "--net", "host")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "taken" in error(
            db.run("db", "start", "e", "--port", port, expect=3))
    db.run("db", "start", "e", "--port", port)
    assert status(db, "e")["port"] == int(port)


@pytest.mark.parametrize("args", [("start",), ("jump", "e"), ("stop", "e", "x"),
                                  ("start", "e", "--port", "0"),
                                  ("start", "e", "--role", "a b")])
def test_wrong_usage(box, args):
    assert error(box.run("db", *args, expect=2))


# --- SQLite ------------------------------------------------------------------

def test_sqlite_needs_nothing(cowfs, tree):
    path = tree / "app.db"
    with sqlite3.connect(path) as con:
        con.execute("pragma journal_mode = wal")
        con.execute("create table t (n int)")
        con.execute("insert into t values (1)")
    con.close()
    cowfs.load(tree)
    points = [cowfs.mount("base", name) for name in ("e", "f")]
    script = ("import sqlite3, sys\n"
              "con = sqlite3.connect('app.db')\n"
              "con.execute('insert into t values (?)', (sys.argv[1],))\n"
              "con.commit()\n"
              "print([n for n, in con.execute('select n from t')])\n")
    for point, n in zip(points, "23"):
        out = cowfs.inside(point, ["python3", "-c", script, n]).out
        assert out == f"[1, {n}]\n"


def test_umount_tells_of_a_busy_environment(db):
    """A database, a server and 200 processes; at rest it takes below 1.5 s."""
    db.run("db", "start", "e")
    state = status(db, "e")
    db.run("run", "-d", "e", "--", "sh", "-c",
           "/usr/bin/python3 -m http.server 0 & "
           "for i in $(seq 200); do sleep 4100 & done; "
           # A child is a shell until it executes sleep.
           "until [ $(grep -lx sleep /proc/[0-9]*/comm | wc -l) = 200 ]; "
           "do sleep .1; done; touch /tmp/up; wait")
    wait_until(lambda: db.run("run", "e", "test", "-e", "/tmp/up",
                              expect=None).code == 0, 30, "all have started")
    start = time.monotonic()
    result = db.run("umount", "e", "--json", "--discard")
    print(f"umount took {time.monotonic() - start:.3f} s")
    row = result.json()[-1]
    database, = (p for p in row["stopped"] if p["kind"] == "database")
    assert database["command"] == "postgres"
    assert database["pid"] == state["pid"]
    names = [p["command"] for p in row["stopped"]]
    assert names.count("sleep") == 200 and "python3" in names
    assert row["remained"] == [] and "sandbox" in row["freed"]
