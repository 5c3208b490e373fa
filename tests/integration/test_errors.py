# SPDX-License-Identifier: MIT
"""Wrong calls: one line, the right exit code, nothing on stdout."""
import pytest

from conftest import user_command
from helpers import one_line_error

CASES = [
    # usage
    ([], 2),
    (["frobnicate"], 2),
    (["--frobnicate"], 2),
    (["--store"], 2),
    (["--store", "", "snapshots"], 2),
    (["import"], 2),
    (["import", "TREE", "TREE"], 2),
    (["import", "TREE/a.txt"], 2),
    (["import", "TREE", "--frob"], 2),
    (["import", "TREE", "-t"], 2),
    (["import", "TREE", "-t", "-bad"], 2),
    (["import", "TREE", "-t", "a/b"], 2),
    (["import", "TREE", "--exclude"], 2),
    (["mount"], 2),
    (["mount", "base", "x", "y"], 2),
    (["mount", "base", "-bad-"], 2),
    (["mount", "base", ".bad"], 2),
    (["mount", "base", "e", "--at"], 2),
    (["mount", "base", "e", "--view", "frob"], 2),
    (["umount"], 2),
    (["umount", "e", "--discard", "--keep"], 2),
    (["umount", "e", "--all"], 2),
    (["umount", "--frob"], 2),
    (["ps", "x"], 2),
    (["show"], 2),
    (["show", "a", "b"], 2),
    (["diff"], 2),
    (["diff", "e", "--name-status", "--stat"], 2),
    (["diff", "e", "--frob"], 2),
    (["tag"], 2),
    (["tag", "base"], 2),
    (["tag", "base", "bad name"], 2),
    (["rm"], 2),
    (["daemon"], 2),
    (["daemon", "frob"], 2),
    (["daemon", "start", "now"], 2),
    (["completion"], 2),
    (["completion", "frobsh"], 2),
    (["help", "frob"], 2),
    (["snapshots", "x"], 2),
    (["import", "TREE", "-t", "a", "-t", "b"], 2),
    (["import", "TREE", "-m", "a", "--message=a"], 2),
    (["--store", "x", "ps", "--store", "y"], 2),
    (["mount", "base", "e", "--at", "x", "--at", "x"], 2),
    ([""], 2),
    (["-q"], 2),
    (["help", ""], 2),
    (["import", ""], 2),
    (["import", "TREE", "-t", ""], 2),
    (["mount", ""], 2),
    (["mount", "base", ""], 2),
    (["umount", ""], 2),
    (["show", ""], 2),
    (["diff", ""], 2),
    (["tag", "base", ""], 2),
    (["rm", ""], 2),
    (["daemon", ""], 2),
    # failed
    (["import", "NOWHERE"], None),
    (["mount", "nothing"], 3),
    (["mount", "nothing", "e"], 3),
    (["mount", "base:v9", "e"], 3),
    (["mount", "0123456789abcdef"], 3),
    (["umount", "nothing"], 3),
    (["umount", "nothing", "--discard"], 3),
    (["show", "nothing"], 3),
    (["diff", "nothing"], 3),
    (["tag", "nothing", "x"], 3),
    (["rm", "nothing"], 3),
    (["rm", "base:v9"], 3),
    (["--store", "/proc/nowhere", "import", "TREE"], 3),
    (["--store", "TREE/a.txt", "snapshots"], 3),
]


@pytest.fixture
def fill(plain, tree):
    plain.load(tree)

    def one(word):
        return word.replace("TREE", str(tree)).replace(
            "NOWHERE", str(tree / "nowhere"))
    return one


@pytest.mark.parametrize("args, code", CASES,
                         ids=[" ".join(c[0]) or "nothing" for c in CASES])
def test_wrong_call(plain, fill, args, code):
    result = plain.run(*map(fill, args), expect=None)
    if code is None:
        assert result.code in (2, 3), result
    else:
        assert result.code == code, result
    assert one_line_error(result), result
    assert " : " not in result.err and ' "' not in result.err[-3:], result
    if "" in args and args[0] != "--store":
        assert "an empty " in result.err, result


def test_options_may_stand_anywhere(plain, tree):
    plain.run("import", "-t", "a", tree)
    plain.run("import", tree, "--tag", "b")
    plain.run("import", tree, "-tc")
    plain.run("import", "--tag=d", "--", tree)
    rows = plain.run("snapshots", "--json").json()
    assert plain.run("--json", "snapshots").json() == rows
    store = str(plain.path)
    out = plain.run("snapshots", "--store", store, "--json")
    assert out.json() == rows
    del plain.env["COWFS_STORE"]
    assert plain.run("snapshots", "--json", "--store=" + store).json() == rows
    plain.env["COWFS_STORE"] = store


@pytest.mark.parametrize("args", [
    ["help"], ["version"], ["--help"], ["--version"], ["-h"], ["-V"], ["help", "mount"],
    ["mount", "--help"], ["import", "--help"], ["diff", "-h"],
    ["daemon", "--help"], ["umount", "--help"], ["completion", "bash"],
    ["completion", "zsh"], ["completion", "fish"]], ids=" ".join)
def test_help_goes_to_stdout(plain, args):
    result = plain.run(*args, expect=None)
    assert result.code == 0 and result.out and not result.err, result
    assert not plain.path.exists()


def test_help_of_a_verb_in_both_ways(plain):
    for verb in ("import", "mount", "umount", "diff", "ps", "tag", "rm"):
        a = plain.run("help", verb).out
        assert a == plain.run(verb, "--help").out and verb in a


def test_bash_takes_the_completion(plain):
    script = plain.run("completion", "bash").out
    result = plain.finish(plain.spawn(
        ["bash", "-c", script + "\ncomplete -p cowfs"]), 20)
    assert result.code == 0 and "cowfs" in result.out, result


def test_a_closed_stdout_is_an_error(plain, tree):
    plain.load(tree)
    with open("/dev/full", "w") as full:
        child = plain.spawn(["cowfs", "snapshots"], stdout=full)
        result = plain.finish(child, 20)
    assert result.code == 3 and result.err.startswith("cowfs "), result


def test_a_damaged_store_is_refused(plain, tree):
    plain.load(tree)
    (plain.path / "format").write_bytes(b"\0garbage\n" * 20)
    result = plain.run("snapshots", expect=3)
    assert one_line_error(result), result


def other_user(store, *args):
    child = store.spawn([*user_command(store), *map(str, args)])
    return store.finish(child, 60)


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_another_users_store_is_refused(cowfs, as_root, tree, mode):
    """Nothing seen is not the same as nothing there."""
    cowfs.load(tree)
    cowfs.mount("base", "e")
    cowfs.path.chmod(mode)
    cowfs.folder.chmod(0o755)
    for args in (["ps"], ["umount", "--all"], ["umount", "e"], ["show", "e"],
                 ["diff", "e"], ["mount", "base"], ["rm", "base"],
                 ["snapshots"], ["daemon", "status"], ["daemon", "stop"]):
        result = other_user(cowfs, *args)
        assert result.code == 3 and one_line_error(result), result
        assert "no permission for" in result.err, result
    result = other_user(cowfs, "doctor")
    assert str(cowfs.path) in result.out, result
    assert "no permission" in result.out, result
    assert not [r for r in result.lines()
                if r.startswith("problem") and str(cowfs.path) in r], result


def test_no_permission_to_make_a_store(plain, as_root, tree):
    user = user_command(plain)
    plain.folder.chmod(0o755)
    for place in (plain.path, plain.path / "deep/er"):
        plain.env["COWFS_STORE"] = str(place)
        for args in (["import", tree], ["mount", tree], ["daemon", "start"]):
            result = plain.finish(plain.spawn([*user, *map(str, args)]), 60)
            assert result.code == 3 and one_line_error(result), result
            assert "Permission denied" in result.err, result
    assert not plain.path.exists()


def test_the_words_of_fusermount_end_in_nothing_odd(plain, as_root, tree):
    """A user mounts on a folder that is not his."""
    user = user_command(plain)
    plain.folder.chmod(0o777)
    point = plain.folder / "point"
    point.mkdir(0o755)
    result = plain.finish(plain.spawn(
        [*user, "mount", str(tree), "e", "--at", str(point)]), 60)
    assert result.code == 3 and one_line_error(result), result
    assert not result.err.rstrip("\n").endswith("?"), result
