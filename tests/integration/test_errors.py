# SPDX-License-Identifier: MIT
"""Wrong calls and inputs: one line that says what is wrong, the exit code of
the contract, nothing on stdout, the server alive, nothing changed.

All rows of the table run against one store with a server, a mounted and a
kept environment; as nothing may change, no row can disturb the next one.
Wrong *stores* are in test_refusals.py.
"""
import os

import mountpoint
import pytest
from conftest import have_fuse, make_tree, skip_unless, user_command
from helpers import one_line_error, store_state

LONG = "l" * 5000
NAME = "a name is 1 to 64 of"
# arguments, exit code, words of the message
CALLS = [
    # no command, or a wrong one
    ([], 2, "COMMAND: missing"),
    (["--"], 2, "COMMAND: missing"),
    ([""], 2, "an empty name"),
    (["-"], 2, "unknown command"),
    (["frobnicate"], 2, '"cowfs help" lists the commands'),
    (["imort", "TREE"], 2, 'did you mean "cowfs import"?'),
    (["PS"], 2, "unknown command"),
    (["--", "frob"], 2, "frob: unknown command"),
    (["help", "frob"], 2, '"cowfs help" lists the commands'),
    (["help", "mont"], 2, 'did you mean "cowfs help mount"?'),
    (["help", ""], 2, "an empty "),
    (["help", "ps", "df"], 2, "df: one argument too many"),
    (["--help", "frob"], 2, "frob: unknown command"),
    (["version", "x"], 2, "x: one argument too many"),
    (["no\nsuch\nthing"], 2, "no?such?thing: unknown command"),
    (["help", "a\nb\nc"], 2, "a?b?c: unknown command"),
    # options
    (["--no\nsuch\nthing"], 2, "--no?such?thing: unknown option"),
    (["ps", "a\nb\nc"], 2, "a?b?c: one argument too many"),
    (["-\n"], 2, "-?: unknown option"),
    (["--frobnicate"], 2, "--frobnicate: unknown option"),
    (["-q"], 2, "-q: unknown option"),
    (["-tps"], 2, "-t: unknown option"),
    (["--version", "--frob"], 2, "--frob: unknown option"),
    (["ps", "--js"], 2, "did you mean --json?"),
    (["--json=1", "ps"], 2, "--json: takes no value"),
    (["doctor", "--fix=yes"], 2, "--fix: takes no value"),
    (["--store"], 2, "--store: needs a value, DIR"),
    (["--store="], 2, "--store: DIR is empty"),
    (["--store", "", "snapshots"], 2, "--store: DIR is empty"),
    (["--store", "x", "ps", "--store", "y"], 2, "--store: given twice"),
    (["import", "TREE", "--frob"], 2, '"cowfs help import" lists'),
    (["import", "TREE", "-t"], 2, "--tag: needs a value, NAME:TAG"),
    (["import", "TREE", "--exclude"], 2, "--exclude: needs a value"),
    (["import", "TREE", "--exclude", ""], 2, '"" excludes everything'),
    (["import", "TREE", "--exclude=//"], 2, '"//" excludes everything'),
    (["import", "TREE", "-t", "a", "-t", "b"], 2, "--tag: given twice"),
    (["import", "TREE", "-m", "a", "--message=a"], 2, "--message: given"),
    (["mount", "base", "n", "--at"], 2, "--at: needs a value, DIR"),
    (["mount", "base", "n", "--at", ""], 2, "--at: DIR is empty"),
    (["mount", "base", "n", "--at", "x", "--at", "x"], 2, "given twice"),
    (["mount", "base", "n", "--view", "frob"], 2, "not auto or fuse"),
    (["mount", "base", "n", "--quota", "12xyz"], 2, "12xyz: not SIZE"),
    (["mount", "base", "n", "--quota", "1M,"], 2, "1M,: not SIZE"),
    (["mount", "base", "n", "--ttl", "1y"], 2, "--ttl: 1y: not a time"),
    (["set", "e", "--quota", "-1"], 2, "-1: not SIZE"),
    (["run"], 125, "usage: cowfs run ENV"),
    (["run", "--frob", "e", "x"], 125, "--frob: unknown option"),
    (["run", "nowhere", "true"], 125, "unknown environment"),
    (["run", "e", "--new", "s", "--detach"], 125, "not together"),
    (["kill"], 2, "usage: cowfs kill ENV"),
    (["kill", "nowhere"], 3, "unknown environment"),
    (["kill", "e", "--signal", "x"], 2, "not a signal"),
    (["env", "nowhere"], 3, "unknown environment"),
    (["env", "e", "--shell", "csh"], 2, "not bash or fish"),
    (["umount", "--frob"], 2, "--frob: unknown option"),
    (["umount", "e", "--discard", "--keep"], 2, "not together with --keep"),
    (["umount", "e", "--all"], 2, "--all: not together with names"),
    (["diff", "e", "--name-status", "--stat"], 2, "not together"),
    (["diff", "e", "--frob"], 2, "--frob: unknown option"),
    (["settings", "--max-store", "5Z"], 2, '"5Z" is no size'),
    (["settings", "--max-store", "-5"], 2, '"-5" is no size'),
    (["settings", "--max-store", ""], 2, '"" is no size'),
    (["settings", "--max-store", "9" * 20], 2, "is no size"),
    (["settings", "--max-store", "1G", "--grace", "x"], 2, '"x" is no number'),
    (["settings", "--grace", "1.5"], 2, '"1.5" is no number'),
    (["settings", "--birth-times", "x"], 2, '"x" is not yes or no'),
    (["settings", "--grace", "99999999"], 2, "at most"),
    (["gc", "--grace", "never"], 2, '"never" is no number'),
    (["gc", "--grace"], 2, "--grace: needs a value, DAYS"),
    # arguments: too few, too many, empty
    (["import"], 2, "PATH: missing"),
    (["import", "TREE", "TREE"], 2, "one argument too many"),
    (["import", ""], 2, "an empty path"),
    (["mount"], 2, "usage: cowfs mount SNAPSHOT|PATH [ENV]"),
    (["mount", "base", "x", "y"], 2, "y: one argument too many"),
    (["mount", ""], 2, "an empty "),
    (["mount", "base", ""], 2, "an empty "),
    (["umount"], 2, "usage: cowfs umount ENV...|--all"),
    (["umount", "--dry-run"], 2, "ENV: missing"),
    (["umount", ""], 2, "an empty "),
    (["ps", "x"], 2, "x: one argument too many"),
    (["ps", "-"], 2, "-: one argument too many"),
    (["show"], 2, "ENV: missing"),
    (["show", "a", "b"], 2, "b: one argument too many"),
    (["show", ""], 2, "an empty "),
    (["diff"], 2, "ENV: missing"),
    (["diff", ""], 2, "an empty "),
    (["tag"], 2, "usage: cowfs tag SNAPSHOT NAME:TAG"),
    (["tag", "base"], 2, "missing"),
    (["tag", "base", ""], 2, "an empty "),
    (["rm"], 2, "missing"),
    (["rm", ""], 2, "an empty "),
    (["snapshots", "x"], 2, "x: one argument too many"),
    (["gc", "x"], 2, "x: one argument too many"),
    (["df", "x"], 2, "x: one argument too many"),
    (["settings", "x"], 2, "x: one argument too many"),
    (["fsck", "x"], 2, "x: one argument too many"),
    (["doctor", "x"], 2, "x: one argument too many"),
    (["daemon"], 2, "start|stop|status: missing"),
    (["daemon", ""], 2, "an empty "),
    (["daemon", "frob"], 2, "not start, stop or status"),
    (["daemon", "start", "now"], 2, "now: one argument too many"),
    (["daemon", "keeper"], 2, "needs a descriptor"),
    (["daemon", "keeper", "99"], 2, "needs a descriptor"),
    (["completion"], 2, "bash|zsh|fish: missing"),
    (["completion", "frobsh"], 2, "not bash, zsh or fish"),
    (["completion", "bash", "zsh"], 2, "zsh: one argument too many"),
    # names
    (["import", "TREE", "-t", "-bad"], 2, NAME),
    (["import", "TREE", "-t", "bad/name"], 2, "not a NAME:TAG"),
    (["import", "TREE", "-t", "a:b:c"], 2, NAME),
    (["import", "TREE", "-t", "base:"], 2, NAME),
    (["import", "TREE", "-t", "a\nb"], 2, "a?b: not a NAME:TAG"),
    (["import", "TREE", "-t", "é"], 2, NAME),
    (["import", "TREE", "-t", ""], 2, "an empty name"),
    (["mount", "base", "-bad-"], 2, "unknown option"),
    (["mount", "base", ".bad"], 2, NAME),
    (["mount", "base", "x" * 65], 2, NAME),
    (["mount", "x" * 300], 2, "not a name of a snapshot"),
    (["umount", "--", "-x"], 2, "not a name of an environment"),
    (["show", "a b"], 2, "not a name of an environment"),
    (["show", "a\x1b[31m\nb"], 2, "a?[31m?b: not a name of"),
    (["umount", "\udcff"], 2, "not a name of an environment"),
    (["mount", "base", "n\nn"], 2, "n?n: not a name for"),
    (["tag", "base", "bad name"], 2, NAME),
    (["tag", "base", "x" * 65], 2, "not a NAME:TAG"),
    (["rm", "base:"], 2, "not a name of a snapshot"),
    # things that are not there, or there already
    (["mount", "nothing"], 3, "unknown environment or snapshot"),
    (["mount", "nothing", "n"], 3, "nothing: unknown"),
    (["mount", "base:v9", "n"], 3, "base:v9: unknown"),
    (["mount", "0123456789abcdef"], 3, "unknown"),
    (["mount", "base", "e"], 3, "cowfs mount e mounts it"),
    (["mount", "base", "kept"], 3, "cowfs mount kept mounts it"),
    (["mount", "e", "--at", "FREE"], 4, "mounted at"),
    (["umount", "nothing"], 3, "nothing: unknown environment"),
    (["umount", "nothing", "--discard"], 3, "unknown environment"),
    (["umount", "TREE"], 3, "no environment is mounted there"),
    (["show", "nothing"], 3, "nothing: unknown environment"),
    (["show", "STORE/mnt/no"], 3, "no environment is mounted there"),
    (["diff", "nothing"], 3, "nothing: unknown environment"),
    (["diff", "TREE"], 3, "no environment is mounted there"),
    (["tag", "nothing", "x"], 3, 'no snapshot "nothing"'),
    (["rm", "nothing"], 3, 'no snapshot "nothing"'),
    (["rm", "nothing", "--dry-run"], 3, 'no snapshot "nothing"'),
    (["rm", "base:v9"], 3, 'no snapshot "base:v9"'),
    (["rm", "bas"], 3, "did you mean base:latest?"),
    (["rm", "0" * 48], 3, "no snapshot"),
    # paths
    (["import", "TREE/none"], 2, "none: No such file or directory"),
    (["import", "TREE/dangling"], 2, "No such file or directory"),
    (["import", "TREE/a.txt"], 2, "not a directory"),
    (["import", "TREE/a.txt/x"], 2, "Not a directory"),
    (["import", "/dev/null"], 2, "not a directory"),
    (["import", "TREE/no\nsuch\nfile"], 2, "no?such?file: No such file"),
    (["import", "\udcff\udcfe"], 2, "No such file or directory"),
    (["mount", "base", "n", "--at", "TREE/a\nb\n/c"], 3, "parent directory"),
    (["--store", "TREE/a\nb", "df"], 3, "a?b"),
    (["import", LONG], 2, "File name too long"),
    (["import", "n" * 256], 2, "File name too long"),
    (["import", "STORE"], 3, "is the store itself"),
    (["import", "STORE/envs"], 3, "is a part of the store"),
    (["import", "STORE/index"], 3, "is a part of the store"),
    (["import", "STORE/envs/e"], 3, "is a part of the store"),
    (["mount", "STORE/segments"], 3, "is a part of the store"),
    (["mount", "TREE/a.txt"], 2, "not a directory"),
    (["mount", "./none"], 2, "No such file"),
    (["mount", "base", "n", "--at", LONG], 2, "File name too long"),
    (["mount", "base", "n", "--at", "TREE"], 3, "not empty"),
    (["mount", "base", "n", "--at", "TREE/a.txt"], 2, "not a directory"),
    (["mount", "base", "n", "--at", "TREE/no/no"], 3, "parent directory"),
    (["mount", "base", "n", "--at", "STORE/x"], 3, "inside the store"),
    (["mount", "base", "n", "--at", "STORE/mnt/e/y"], 3, "inside the store"),
    (["mount", "base", "n", "--at", "/"], 3, "not empty"),
    (["--store", "/proc/nowhere", "import", "TREE"], 3, "/proc/nowhere"),
    (["--store", "TREE/a.txt", "snapshots"], 3, "a.txt"),
    (["--store", LONG, "snapshots"], 3, "File name too long"),
    (["--store", "STORE/mnt/e/s", "import", "TREE"], 3, "inside an"),
    # in use
    (["daemon", "stop"], 4, "unmount first: cowfs umount --all"),
    (["fsck", "--repair"], 4, "cowfs daemon stop"),
]


def shown(args):
    return " ".join(a if len(a) < 70 else a[:3] + "..." for a in args)


@pytest.fixture(scope="module")
def living():
    """A store with a server, an environment that is mounted, one kept."""
    skip_unless(have_fuse(), "fuse")
    store = mountpoint.Store()
    store.tree = store.folder / "tree"
    make_tree(store.tree)
    store.load(store.tree)
    store.point = store.mount("base", "e")
    store.sh(store.mount("base", "kept"), "echo new > file")
    store.run("umount", "kept", "--keep")
    store.pid = store.server_pid()
    yield store
    wrong = store.close()
    assert not wrong, "\n".join(wrong)


def unharmed(store, before):
    assert store.server_pid() == store.pid, "another server"
    assert store.sh(store.point, "cat a.txt").out == "alpha\n"
    assert store_state(store.folder) == before


@pytest.mark.parametrize("args, code, words", CALLS,
                         ids=[shown(c[0]) or "nothing" for c in CALLS])
def test_wrong_call(living, args, code, words):
    before = store_state(living.folder)
    args = [a.replace("TREE", str(living.tree))
            .replace("STORE", str(living.path))
            .replace("FREE", str(living.folder / "free")) for a in args]
    for options in ([], ["--json"]):
        result = living.run(*options, *args, expect=code)
        assert one_line_error(result), result
        assert words in result.err, result
        assert " : " not in result.err, result
        assert ' "' not in result.err[-3:], result
    unharmed(living, before)


def test_the_table_is_long_enough():
    assert len({tuple(c[0]) for c in CALLS}) == len(CALLS) >= 70


# --- odd variables and descriptors -------------------------------------------

VARIABLES = [
    ({"COWFS_STORE": LONG}, ["snapshots"], "File name too long"),
    ({"COWFS_STORE": "TREE/a.txt"}, ["snapshots"], "a.txt"),
    ({"COWFS_STORE": "/dev/null"}, ["import", "TREE"], "Not a directory"),
    ({"COWFS_STORE": "/proc/none"}, ["mount", "TREE"], "/proc/none"),
    ({"COWFS_STORE": "TREE/a\nb"}, ["tag", "base", "x"], "a?b"),
    ({"COWFS_STORE": "TREE/none"}, ["rm", "base"], "none"),
    ({"COWFS_STORE": "TREE/none"}, ["gc"], "none"),
    ({"COWFS_STORE": "TREE/none"}, ["fsck"], "none"),
    ({"COWFS_STORE": "TREE/none"}, ["diff", "e"], "there is no store at"),
    ({"COWFS_STORE": "TREE/none"}, ["mount", "base"], "there is no store at"),
]


@pytest.mark.parametrize("variables, args, words", VARIABLES)
def test_odd_variables(living, variables, args, words):
    before = store_state(living.folder)
    env = {**living.env, **{k: v.replace("TREE", str(living.tree))
                            for k, v in variables.items()}}
    args = [a.replace("TREE", str(living.tree)) for a in args]
    result = living.run(*args, expect=3, env=env)
    assert one_line_error(result) and words in result.err, result
    unharmed(living, before)


# what prints, and does no harm when it has printed into nothing
PRINTERS = [
    ["import", "TREE"], ["snapshots"], ["mount", "e"], ["ps"], ["show", "e"],
    ["umount", "e", "--dry-run"], ["diff", "kept"], ["diff", "kept", "-z"],
    ["rm", "base", "--dry-run"], ["gc", "--dry-run"], ["df"], ["settings"],
    ["fsck"], ["doctor"], ["daemon", "status"], ["completion", "bash"],
    ["completion", "zsh"], ["completion", "fish"], ["help"], ["help", "rm"],
    ["mount", "--help"], ["version"], ["--version"],
]


@pytest.mark.parametrize("how", ["full", "closed", "reader gone"])
@pytest.mark.parametrize("args", PRINTERS, ids=" ".join)
def test_nowhere_to_print(living, args, how):
    """A result that is lost is an error of every command that prints."""
    args = [a.replace("TREE", str(living.tree)) for a in args]
    for options in ([], ["--json"]):
        if how == "closed":
            argv = ["sh", "-c", 'exec "$@" >&-', "sh"]
            out, inside = None, None
        elif how == "full":
            argv, out, inside = [], open("/dev/full", "w"), None
        else:
            inside, writer = os.pipe()
            os.close(inside)
            argv, out = [], os.fdopen(writer, "w")
        child = living.spawn([*argv, "cowfs", *options, *args], stdout=out)
        if out:
            out.close()
        result = living.finish(child, 30)
        assert result.code == 3, result
        assert one_line_error(result), result
        assert "standard output: " in result.err, result
    assert living.server_pid() == living.pid


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-",
                                    "</dev/full"])
def test_other_descriptors_may_be_closed(living, closed):
    """What needs no input and has nothing to say needs no descriptor; and
    none of the store's files ends up as standard error."""
    for args in (["snapshots"], ["import", str(living.tree)], ["ps"],
                 ["mount", "e"], ["diff", "kept"], ["fsck", "--fast"]):
        child = living.spawn(["sh", "-c", f'exec "$@" {closed}', "sh",
                              "cowfs", *args])
        result = living.finish(child, 30)
        assert result.code == 0 and result.out and not result.err, result
    child = living.spawn(["sh", "-c", f'exec "$@" {closed}', "sh", "cowfs",
                          "mount", "nothing"])
    assert living.finish(child, 30).code == 3
    assert living.server_pid() == living.pid


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
    # Nobody else may stop its server.
    assert other_user(plain, "daemon", "stop").code == 0
