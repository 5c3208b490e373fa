# SPDX-License-Identifier: MIT
"""git's index in a fresh environment: nothing is read, nothing is forgotten."""
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time

import gitrepo
import pytest

GIT = dict(gitrepo.GIT, GIT_OPTIONAL_LOCKS="0")
git = functools.partial(gitrepo.git, settings=GIT)


@pytest.fixture
def env(cowfs):
    cowfs.env.update(GIT)
    return cowfs


@pytest.fixture
def repo(tmp_path):
    top = tmp_path / "repo"
    git(tmp_path, "init", "-q", "-b", "main", top)
    for d in ("src", "src/deep", "doc"):
        (top / d).mkdir()
        for i in range(30):
            (top / d / f"f{i}").write_text(f"{d} {i}\n" * (i + 1))
    (top / "src/big").write_bytes(bytes(range(256)) * 2000)
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "sym").symlink_to("src/f1")
    os.link(top / "src/f2", top / "src/hard")
    (top / "empty").write_text("")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    return top


def opened(env, place, command="git status --porcelain=v2"):
    """What a command prints, and the files outside of .git that it opened."""
    trace = env.folder / "trace"
    out = env.sh(place, f"strace -f -qq -e trace=open,openat,openat2 "
                        f"-o {trace} {command}", limit=300).out
    files = []
    for line in trace.read_text().splitlines():
        m = re.search(r'open(?:at2?)?\((?:AT_FDCWD, )?"([^"]*)", ([A-Z_|]*)'
                      r'.*\) = \d+', line)
        if m and "O_DIRECTORY" not in m[2] and not m[1].startswith(
                ("/", ".git", "../")) and "/.git" not in m[1]:
            files.append(m[1])
    return out, files


def reads(env, name):
    return int(env.run("--json", "show", name).json()[0]["reads"])


def quiet_reads(env, name, place):
    """READ requests of a status: of it, and of .git alone."""
    # What git reads of its own files is in the kernel's cache after this.
    env.sh(place, "find .git -type f -exec cat {} + >/dev/null; "
                  "cat /dev/null $(git ls-files '*.gitignore')")
    before = reads(env, name)
    env.sh(place, "git status --porcelain >/dev/null")
    return reads(env, name) - before


def make_young(top):
    """The index as young as its files: git takes all of them for racy."""
    newest = max(os.lstat(top / n).st_mtime_ns
                 for n in git(top, "ls-files").splitlines())
    os.utime(top / ".git/index", ns=(newest, newest))


@pytest.mark.parametrize("young", [False, True])
def test_first_status_opens_no_file(env, repo, young):
    if young:
        make_young(repo)
    env.load(repo)
    point = env.mount("base", "e")
    assert opened(env, point) == ("", [])
    point = env.mount("base", "f")
    assert quiet_reads(env, "f", point) == 0
    assert "\t.git/index" not in env.run("diff", "f").out
    assert env.run("umount", "f").err == ""


def test_first_status_of_submodules_opens_no_file(env, repo, tmp_path):
    outer = tmp_path / "outer"
    git(tmp_path, "clone", "-q", repo, outer)
    git(outer, "submodule", "-q", "add", repo, "sub")
    git(outer, "commit", "-q", "-m", "sub")
    (outer / "sub/src/f3").write_text("changed, and longer than before\n")
    env.load(outer)
    point = pathlib.Path(env.mount("base", "e"))
    out, files = opened(env, point)
    assert out == git(outer, "status", "--porcelain=v2")
    assert not [f for f in files if f != ".gitmodules"]
    out, files = opened(env, point / "sub", "git diff-files --name-only")
    assert (out, files) == ("src/f3\n", [])


@pytest.mark.parametrize("version", [2, 4])
def test_stat_data_are_those_of_the_view(env, repo, version):
    git(repo, "update-index", "--index-version", str(version))
    make_young(repo)
    env.load(repo)
    point = env.mount("base", "e")
    seen = env.py(point, """
        import subprocess
        raw = open('.git/index', 'rb').read()
        assert raw[4:8] == bytes([0, 0, 0, int(sys.argv[1])])
        out = subprocess.run(['git', 'ls-files', '--debug'], check=True,
                             capture_output=True, text=True).stdout
        names = [l for l in out.splitlines() if not l.startswith(' ')]
        blocks = out.split('size: ')
        for name, part in zip(names, out.split('  ctime: ')[1:]):
            st = os.lstat(name)
            have = [int(x) for x in re.findall(r'\\d+', part.split('flags')[0])]
            ns = 10**9
            want = [st.st_ctime_ns // ns, st.st_ctime_ns % ns,
                    st.st_mtime_ns // ns, st.st_mtime_ns % ns, 0, st.st_ino,
                    st.st_uid, st.st_gid, st.st_size]
            assert have == want, (name, have, want)
        newest = max(os.lstat(n).st_mtime for n in names)
        assert os.lstat('.git/index').st_mtime >= int(newest) + 1
        print(len(names))
        """.replace("import subprocess", "import subprocess, re"),
        str(version)).out
    assert int(seen) == 95


def modified(top):
    (top / "src/f3").write_text("another length\n")


def modified_same_size(top):
    text = (top / "src/f3").read_text()
    (top / "src/f3").write_text(text.swapcase())


def racy(top):
    """Changed in the second of the index, and of the same size; git finds it
    by its content only."""
    path = top / "src/f3"
    text = path.read_text()
    path.write_text("1" * len(text))
    git(top, "add", "src/f3")
    path.write_text("2" * len(text))
    stamp = os.stat(top / ".git/index").st_mtime_ns
    os.utime(path, ns=(stamp, stamp))


def racy_stat(top):
    """The same with all stat data of the entry but the content's."""
    racy(top)
    st = os.lstat(top / "src/f3")
    index = top / ".git/index"
    raw = bytearray(index.read_bytes())
    name = git(top, "rev-parse", ":src/f3").strip()
    at = raw.index(bytes.fromhex(name)) - 40
    ns = 10**9
    struct.pack_into(">10I", raw, at, st.st_ctime_ns // ns,
                     st.st_ctime_ns % ns, st.st_mtime_ns // ns,
                     st.st_mtime_ns % ns, st.st_dev & 0xffffffff,
                     st.st_ino & 0xffffffff, st.st_mode & 0o100755 | 0o644,
                     st.st_uid, st.st_gid, st.st_size)
    seal(index, raw)
    os.utime(index, ns=(st.st_ctime_ns, st.st_ctime_ns))


def seal(index, raw):
    import hashlib
    raw[-20:] = hashlib.sha1(raw[:-20]).digest()
    index.write_bytes(raw)


def touched(top):
    os.utime(top / "src/f3", ns=(10**18, 10**18))


def replaced_by_a_copy(top):
    shutil.copy2(top / "src/f3", top / "src/copy")
    os.rename(top / "src/copy", top / "src/f3")


def deleted(top):
    (top / "src/f3").unlink()
    shutil.rmtree(top / "doc")


def moved(top):
    os.rename(top / "src/f3", top / "src/moved")


def mode(top):
    (top / "src/f3").chmod(0o755)


def type_changed(top):
    (top / "src/f3").unlink()
    (top / "src/f3").symlink_to("f4")
    (top / "sym").unlink()
    (top / "sym").write_text("src/f1")


def file_to_directory(top):
    (top / "src/f3").unlink()
    (top / "src/f3").mkdir()
    (top / "src/f3/in").write_text("in\n")


def staged(top):
    modified(top)
    git(top, "add", "-A")


def staged_then_modified(top):
    staged(top)
    (top / "src/f3").write_text("and again\n")


def intent_to_add(top):
    (top / "planned").write_text("planned\n")
    git(top, "add", "-N", "planned")


def assumed_unchanged(top):
    git(top, "update-index", "--assume-unchanged", "src/f3", "src/f4")
    modified(top)


def skipped(top):
    git(top, "update-index", "--skip-worktree", "src/f3", "src/f4")
    modified(top)
    (top / "src/f4").unlink()


def conflict(top):
    git(top, "switch", "-q", "-c", "side")
    (top / "src/f3").write_text("side\n")
    git(top, "commit", "-q", "-a", "-m", "side")
    git(top, "switch", "-q", "main")
    (top / "src/f3").write_text("main\n")
    git(top, "commit", "-q", "-a", "-m", "main")
    subprocess.run(["git", "-C", top, "merge", "-q", "side"],
                   env=dict(os.environ, **GIT), capture_output=True)


def line_ends(top):
    git(top, "config", "core.autocrlf", "true")
    (top / "src/f3").write_bytes(b"one\r\ntwo\r\n")
    git(top, "commit", "-q", "-a", "-m", "line ends")


def line_ends_to_come(top):
    """A file that git would now store otherwise, looked at anew."""
    (top / "src/f3").write_bytes(b"one\r\ntwo\r\n")
    git(top, "commit", "-q", "-a", "-m", "as it is")
    (top / ".gitattributes").write_text("src/f3 text\n")
    os.utime(top / "src/f3", (10**9, 10**9))


def untracked_cache(top):
    git(top, "update-index", "--untracked-cache")
    git(top, "-c", "core.untrackedCache=true", "status")
    (top / "src/new").write_text("new\n")


def monitored(top):
    hook = top / ".git/hooks/watch"
    hook.write_text("#!/bin/sh\nprintf 'token\\0/\\0'\n")
    hook.chmod(0o755)
    git(top, "config", "core.fsmonitor", ".git/hooks/watch")
    subprocess.run(["git", "-C", top, "update-index", "--fsmonitor"],
                   env=dict(os.environ, **GIT))
    git(top, "status")
    modified(top)


def no_checksum(top):
    raw = bytearray((top / ".git/index").read_bytes())
    raw[-20:] = bytes(20)
    (top / ".git/index").write_bytes(raw)
    modified(top)


def old_and_new_times(top):
    for i, sec in enumerate((0, 1, 2**31 + 5, 2**32 - 2, -5)):
        os.utime(top / f"src/f{i}", (sec, sec))
    git(top, "update-index", "--refresh")
    modified(top)


def case_of_names(top):
    (top / "SRC").mkdir()
    (top / "SRC/f3").write_text("other\n")
    (top / "src.x").write_text("sorts between\n")
    (top / "src-x").mkdir()
    (top / "src-x/y").write_text("sorts before\n")
    git(top, "add", "-A")
    modified(top)


def bytes_in_names(top):
    with open(os.fsencode(top) + b"/\xff\xfe \n", "w") as f:
        f.write("x\n")
    git(top, "add", "-A")
    modified(top)


CHANGES = (modified, modified_same_size, racy, racy_stat, touched,
           replaced_by_a_copy, deleted, moved, mode, type_changed,
           file_to_directory, staged, staged_then_modified, intent_to_add,
           assumed_unchanged, skipped, conflict, line_ends,
           line_ends_to_come, untracked_cache,
           monitored, no_checksum, old_and_new_times, case_of_names,
           bytes_in_names)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("version", [2, 4])
def test_what_was_changed_stays_changed(env, repo, change, version):
    git(repo, "update-index", "--index-version", str(version))
    change(repo)
    told = env.run("import", repo, "-t", "base").err
    assert "left as it is" not in told
    point = env.mount("base", "e")
    looks = ["ls-files -s", "ls-files -v", "status --porcelain=v2",
             "diff HEAD --stat", "diff"]
    # It refreshes nothing, so what looks dirty and is not would tell here.
    # (Where git's own look at the origin has to be a new one, it does.)
    if change not in (touched, replaced_by_a_copy, racy, racy_stat,
                      line_ends, line_ends_to_come):
        looks.insert(0, "diff-files --raw")
    if change is not no_checksum:  # git before 2.40 does not know it
        looks.append("fsck")
    script = "; ".join(f"git {look}; echo @@end@@" for look in looks)
    have = env.sh(point, script).out.split("@@end@@\n")
    want = subprocess.run(["sh", "-ec", script], cwd=repo, check=True,
                          env=dict(os.environ, **GIT), capture_output=True)
    want = want.stdout.decode(errors="replace").split("@@end@@\n")
    for look, a, b in zip(looks, have, want, strict=False):
        assert a == b, look
    assert len(have) == len(want) == len(looks) + 1


def test_a_split_index_is_left_alone(env, repo):
    git(repo, "update-index", "--split-index")
    modified(repo)
    told = env.run("import", repo, "-t", "base").err
    assert ".git/index is left as it is (it is split)" in told
    # told again, although nothing changed
    assert told == env.run("import", repo, "-t", "base").err
    point = env.mount("base", "e")
    assert env.sh(point, "git status --porcelain").out == " M src/f3\n"


def test_an_unknown_index_is_left_alone(env, repo):
    index = repo / ".git/index"
    whole = index.read_bytes()
    for i, (says, change) in enumerate((
            ("it has version 7", lambda raw: raw[:7] + b"\7" + raw[8:]),
            ("it has an extension 'zzzz'",
             lambda raw: raw[:-20] + b"zzzz" + bytes(24)))):
        seal(index, bytearray(change(index.read_bytes())))
        assert says in env.run("import", repo, "-t", "base").err
        point = env.mount("base", f"e{i}")
        assert env.sh(point, "md5sum <.git/index").out == \
            env.sh(repo, "md5sum <.git/index").out
        index.write_bytes(whole)


def test_a_change_right_after_the_mount_is_seen(env, repo):
    """Of the same size, in the second of the import: git compares seconds."""
    for i in range(3):
        (repo / "src/f3").write_text(f"{i}" * 9)
        git(repo, "commit", "-q", "-a", "-m", "now")
        point = env.run("mount", repo, f"e{i}").out.strip()
        env.sh(point, "printf xxxxxxxxx >src/f3")
        assert env.sh(point, "git status --porcelain").out == " M src/f3\n"


def test_an_unchanged_index_is_adapted_once(env, repo):
    """The second import finds the tree that came of the first."""
    first = env.load(repo)
    before = (env.path / "segments").stat()
    stored = env.run("--json", "import", repo).json()[0]
    assert stored["id"] == first and stored["stored_bytes"] == 0
    assert (env.path / "segments").stat().st_mtime_ns == before.st_mtime_ns
    modified(repo)
    assert env.load(repo) != first
    env.run("gc")
    assert env.load(repo) == env.load(repo, "base", "--rescan")


def make_many(top, files):
    """A repository of that many files with text in them."""
    git(top.parent, "init", "-q", "-b", "main", top)
    git(top, "config", "gc.auto", "0")
    text = pathlib.Path(os.__file__).read_text()
    for i in range(files):
        folder = top / f"p{i // 2500}" / f"q{i // 50 % 50}"
        if i % 50 == 0:
            folder.mkdir(parents=True)
        at = i * 97 % (len(text) - 4000)
        (folder / f"file{i}.txt").write_text(text[at:at + 500 + i % 3000])
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "many")
    time.sleep(1.1)
    git(top, "status")


@pytest.mark.long
def test_fifty_thousand_files(env, tmp_path):
    """What the time of a first status is spent on is not reading."""
    top = tmp_path / "many"
    make_many(top, 50000)
    (top / "p1/q1/file2550.txt").write_text("changed\n")
    env.load(top)
    point = env.mount("base", "traced")
    out, files = opened(env, point)
    assert out.count("\n") == 1 and files == []
    assert quiet_reads(env, "traced", point) == 0
    env.run("umount", "traced", "--discard")
