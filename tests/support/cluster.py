# SPDX-License-Identifier: MIT
"""A PostgreSQL cluster, made as its owner would make it."""
import glob
import shutil
import subprocess

BINS = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
BIN = BINS[-1] if BINS else "/nonexistent"
USER = "postgres"


def as_user(argv):
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups",
            "--", *map(str, argv)]


def pg_ctl(data, *args):
    subprocess.run(as_user([f"{BIN}/pg_ctl", "-D", data, "-w", "-s",
                            "-o", f"-k {data} -c listen_addresses=",
                            *args]), check=True, timeout=120, cwd="/",
                   stdout=subprocess.DEVNULL)


def make_cluster(data, sql):
    """In the new folder data, whose parents everybody can enter; stopped
    cleanly after sql."""
    data.mkdir()
    shutil.chown(data, USER, USER)
    subprocess.run(as_user([f"{BIN}/initdb", "-A", "trust", "-E", "UTF8",
                            "--no-locale", "-N", "-U", USER, "-D", data]),
                   check=True, timeout=120, cwd="/",
                   stdout=subprocess.DEVNULL)
    pg_ctl(data, "start")
    try:
        subprocess.run(as_user([f"{BIN}/psql", "-qh", data, "-c", sql]),
                       check=True, timeout=60, cwd="/")
    finally:
        pg_ctl(data, "-m", "fast", "stop")
