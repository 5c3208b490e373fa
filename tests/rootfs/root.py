#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""root.py - makes a root file system once, and keeps it in
${COWFS_CACHE:-~/.cache/cowfs}, which is outside of the source tree.

debootstrap's minimal Debian, with PostgreSQL and python3 in it: the release
and the mirror are those that this machine's apt has. Within a release Debian
changes packages rarely; which versions it became stands beside the root, in
NAME.packages. As root.

    root.py      makes it, prints where it is
"""
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent /
                       "agents"))
from project import cache_folder  # noqa: E402

# The second with apt: its scripts want to know first that nothing starts.
FIRST, SECOND = "ca-certificates,python3", "postgresql-15"
MADE = 1  # counts changes of how it is made
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VARS = {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8",
        "HOME": "/root"}
# PostgreSQL does without its compiler, a quarter of all bytes.
LEFT_OUT = "".join(
    f"path-exclude=/usr/{path}\n"
    for path in ("share/doc/*", "share/man/*", "share/info/*",
                 "share/locale/*", "share/lintian/*", "lib/*/libLLVM*",
                 "lib/postgresql/*/lib/llvmjit*",
                 "lib/postgresql/*/lib/bitcode/*"))
# Files by which packages start nothing and make no cluster.
QUIET = {
    "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",
    "etc/postgresql-common/createcluster.conf":
        "create_main_cluster = false\n",
    "etc/dpkg/dpkg.cfg.d/left-out": LEFT_OUT,
    "etc/apt/apt.conf.d/no-recommends": 'APT::Install-Recommends "false";\n',
}


@functools.lru_cache
def targets():
    """The repositories of this machine's apt: their site and release."""
    if not shutil.which("apt-get"):
        return []
    out = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)",
         "Created-By: Packages", "Origin: Debian", "Component: main"],
        stdout=subprocess.PIPE, text=True, check=False).stdout
    return [line.split() for line in out.splitlines()]


def release():
    """The mirror's address, and the release."""
    for site, name in targets():
        if "-" not in name:  # no updates
            return site, name
    return None


def missing():
    """What a machine needs to make it."""
    names = [] if shutil.which("debootstrap", path=PATH) else ["debootstrap"]
    if os.geteuid() != 0:
        names.append("root")
    return names + ([] if release() else ["a mirror of Debian"])


def place():
    """Where it is, or would be."""
    key = hashlib.sha256(repr((FIRST, SECOND, MADE, QUIET)).encode())
    name = (release() or ["", "none"])[1]
    return cache_folder() / f"root-{name}-{key.hexdigest()[:12]}"


def run(*argv):
    subprocess.run(argv, env=VARS, check=True, stdin=subprocess.DEVNULL,
                   stdout=sys.stderr)


def make_root(top):
    site, name = release()
    run("debootstrap", "--variant=minbase", f"--include={FIRST}", name,
        str(top), site)
    for path, text in QUIET.items():
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    run("chroot", str(top), "apt-get", "-qq", "install", "-y", SECOND)
    run("chroot", str(top), "apt-get", "clean")
    for path in ("usr/share/doc", "usr/share/man", "usr/share/locale",
                 "var/lib/apt/lists", "var/cache/debconf"):
        for entry in (top / path).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def packages(top):
    return subprocess.run(
        ["chroot", str(top), "dpkg-query", "-W"], env=VARS, check=True,
        stdout=subprocess.PIPE).stdout


def make():
    top = place()
    if top.exists():
        return top
    top.parent.mkdir(parents=True, exist_ok=True)
    # Below the home nobody but root gets to it, and packages' scripts run as
    # other users, too.
    with tempfile.TemporaryDirectory(prefix="cowfs-root-") as scratch:
        os.chmod(scratch, 0o755)
        making = pathlib.Path(scratch) / "root"
        make_root(making)
        (top.parent / f"{top.name}.packages").write_bytes(packages(making))
        ready = top.parent / f"making-{top.name}-{os.getpid()}"
        try:
            subprocess.run(["cp", "-a", str(making), str(ready)], check=True)
            ready.rename(top)
        except OSError:
            if not top.exists():  # else another run was faster
                raise
        finally:
            shutil.rmtree(ready, ignore_errors=True)
    return top


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        print("root.py: needs " + ", ".join(lacking), file=sys.stderr)
        sys.exit(77)
    print(make())
