# SPDX-License-Identifier: MIT
"""umount rescues what changed, and only then destroys; rescue brings it back.

Without git; what git has to do with it is in test_rescue_git.py.
"""
import json
import os
import re
import time

import mountpoint
import pytest
from helpers import listing, one_line_error

CHANGES = """
echo changed > a.txt
printf 'XYZ' | dd of=big bs=1 seek=300001 conv=notrunc status=none
mkdir -p new/dir empty.d
seq 3000 > new/dir/seq
ln new/dir/seq new/hard
rm -r gone
mv moved elsewhere
chmod 600 src/f01.c
mkfifo fifo
ln -s nowhere new/link
truncate -s 5M holes; echo end >> holes
printf 'x' > "$(printf 'n\\351\\nname')"
"""
if os.geteuid() == 0:
    CHANGES += "setfattr -n user.k -v v src/f06.c\nchown 7:8 src/f07.c\n"


def envs(store):
    return [r["name"] for r in store.run("--json", "ps").json()]


def rescues(store):
    return store.run("--json", "rescue", "ls").json()


def rescue_of(store, env, *args):
    """Unmounts, and returns the rescue that this made."""
    known = {r["rescue"] for r in rescues(store)}
    store.run("umount", env, *args)
    new = [r for r in rescues(store) if r["rescue"] not in known]
    assert len(new) == 1, new
    assert new[0]["env"] == env and env not in envs(store)
    return new[0]


def changed(store, tree, name="e"):
    store.load(tree)
    point = store.mount("base", name)
    store.sh(point, CHANGES)
    return point


def test_restored_it_is_the_same(cowfs, tree):
    before = listing(cowfs, changed(cowfs, tree), "--content")
    rescue = rescue_of(cowfs, "e")
    assert rescue["where"] == "store" and rescue["left"] == []
    assert rescue["source"] == str(tree)
    assert abs(rescue["time"] - time.time()) < 300
    assert rescue["files"] > 15
    result = cowfs.run("rescue", "restore", rescue["rescue"], "again")
    assert not result.out
    assert envs(cowfs) == ["again"]
    assert not mountpoint.mounts_below(cowfs.path / "mnt" / "again")
    point = cowfs.mount("again")
    assert listing(cowfs, point, "--content") == before
    cowfs.run("umount", "again")  # nothing has changed in it
    assert len(rescues(cowfs)) == 1 and not envs(cowfs)


def test_the_message_says_where_it_is(cowfs, tree):
    changed(cowfs, tree)
    result = cowfs.run("umount", "e")
    name = rescues(cowfs)[0]["rescue"]
    assert not result.out
    assert re.match(r"cowfs umount: e: \d+ changed paths rescued as ",
                    result.err), result
    assert result.err.count(name) == 3 and "restore" in result.err
    assert len(result.err.splitlines()) == 2, result
    assert re.fullmatch(r"e-\d{8}T\d{6}Z", name)


def test_a_kept_environment_is_rescued_too(cowfs, tree):
    before = listing(cowfs, changed(cowfs, tree), "--content")
    cowfs.run("umount", "e", "--keep")
    rescue = rescue_of(cowfs, "e")
    cowfs.run("rescue", "restore", rescue["rescue"], "e")
    assert listing(cowfs, cowfs.mount("e"), "--content") == before


def test_a_rescue_of_a_restored_one(cowfs, tree):
    changed(cowfs, tree)
    first = rescue_of(cowfs, "e")
    cowfs.run("rescue", "restore", first["rescue"], "e")
    point = cowfs.mount("e")
    cowfs.sh(point, "echo more > more; rm new/hard")
    before = listing(cowfs, point, "--content")
    second = rescue_of(cowfs, "e")
    assert second["base"] == first["snapshot"] and second["files"] == 2
    cowfs.run("rescue", "restore", second["rescue"], "f")
    assert listing(cowfs, cowfs.mount("f"), "--content") == before


def test_show_is_a_diff(cowfs, tree):
    changed(cowfs, tree)
    listed = cowfs.run("diff", "e").out
    patch = cowfs.run("diff", "e", "--patch").out
    rescue = rescue_of(cowfs, "e")["rescue"]
    assert cowfs.run("rescue", "show", rescue).out == listed
    assert cowfs.run("rescue", "show", rescue, "--patch").out == patch
    rows = cowfs.run("--json", "rescue", "show", rescue).json()
    assert {"v", "status", "path"} <= set(rows[0])
    cowfs.run("rescue", "show", rescue, "--stat", "--patch", expect=2)


def test_json_of_umount_names_it(cowfs, tree):
    changed(cowfs, tree)
    row, = cowfs.run("--json", "umount", "e").json()
    assert row["name"] == "e" and not row["kept"]
    assert row["rescue"] == rescues(cowfs)[0]["rescue"]


def test_gc_keeps_it_until_it_is_dropped(cowfs, tree):
    before = listing(cowfs, changed(cowfs, tree), "--content")
    rescue = rescue_of(cowfs, "e")["rescue"]
    cowfs.run("rm", "base")
    cowfs.run("gc", "--grace", "0")
    assert cowfs.run("fsck").out == "0 problems\n"
    cowfs.run("rescue", "restore", rescue, "f")
    assert listing(cowfs, cowfs.mount("f"), "--content") == before
    cowfs.run("umount", "f")
    cowfs.run("rescue", "drop", rescue)
    assert not rescues(cowfs)
    cowfs.run("gc", "--grace", "0")
    assert cowfs.run("--json", "snapshots").out == ""
    assert cowfs.run("fsck").out == "0 problems\n"


def test_drop_and_prune(cowfs, tree):
    cowfs.load(tree)
    names = []
    for i in range(3):
        cowfs.sh(cowfs.mount("base", f"e{i}"), "echo x > x")
        names.append(rescue_of(cowfs, f"e{i}")["rescue"])
    said = cowfs.run("rescue", "drop", names[0], "--dry-run").out
    assert names[0] in said and len(rescues(cowfs)) == 3
    cowfs.run("rescue", "drop", names[0], "nosuch", expect=3)
    assert len(rescues(cowfs)) == 2
    cowfs.run("rescue", "prune", "--older-than", "1h")
    assert len(rescues(cowfs)) == 2
    dry = cowfs.run("rescue", "prune", "--older-than", "0", "--dry-run").out
    assert len(dry.splitlines()) == 2 and len(rescues(cowfs)) == 2
    rows = cowfs.run("--json", "rescue", "prune", "--older-than", "0").json()
    assert [r["rescue"] for r in rows] == names[1:]
    assert not rescues(cowfs)


def test_several_in_one_second_have_names_of_their_own(cowfs, tree):
    cowfs.load(tree)
    for _ in range(3):
        cowfs.sh(cowfs.mount("base", "same..name.lock"), "echo x > x")
        cowfs.run("umount", "same..name.lock")
    names = [r["rescue"] for r in rescues(cowfs)]
    assert len(set(names)) == 3
    assert all(".." not in n for n in names), names


def test_all_rescues_each(cowfs, tree):
    cowfs.load(tree)
    for n in ("a", "b", "c"):
        cowfs.mount("base", n)
    for n in ("a", "c"):
        cowfs.sh(str(cowfs.path / "mnt" / n), f"echo {n} > who")
    cowfs.run("umount", "--all")
    assert sorted(r["env"] for r in rescues(cowfs)) == ["a", "c"]
    assert not envs(cowfs)


def test_discard_says_what_it_threw_away(cowfs, tree):
    cowfs.load(tree)
    cowfs.sh(cowfs.mount("base", "e"),
             "head -c 5000 /dev/zero > n; echo x > a.txt; rm b.txt")
    result = cowfs.run("umount", "e", "--discard")
    assert "4 changed paths" in result.err, result  # a.txt is src/hard
    assert "5004 bytes" in result.err, result
    assert not rescues(cowfs) and not envs(cowfs)


def test_a_dry_run_says_it(cowfs, tree):
    changed(cowfs, tree)
    result = cowfs.run("umount", "e", "--dry-run")
    assert "rescued" in result.out
    assert envs(cowfs) == ["e"] and not rescues(cowfs)


def test_a_socket_is_named(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.py(point, """
        import socket
        socket.socket(socket.AF_UNIX).bind('src/sock')
        open('n', 'w').write('x')""")
    result = cowfs.run("umount", "e")
    assert "src/sock" in result.err, result
    rescue = rescues(cowfs)[0]
    assert rescue["left"] == ["src/sock"]
    assert "src/sock" in cowfs.run("rescue", "show", rescue["rescue"]).err
    restored = cowfs.run("rescue", "restore", rescue["rescue"], "f")
    assert "src/sock" in restored.err, restored
    assert cowfs.sh(cowfs.mount("f"), "cat n; ls src/sock || echo none",
                    ).out == "xnone\n"


def test_the_store_cannot_take_it_and_nothing_is_destroyed(small_disk, tree):
    """No room for the rescue: kept, exit 3, the reason."""
    store = small_disk
    store.load(tree)
    point = store.mount("base", "e")
    store.sh(point, "head -c 26000000 /dev/urandom > fresh")
    before = listing(store, point, "--content")
    result = store.run("umount", "e", expect=3)
    assert "No space" in result.err and "kept" in result.err, result
    assert one_line_error(result)
    assert envs(store) == ["e"] and not rescues(store)
    assert listing(store, store.mount("e"), "--content") == before
    store.run("umount", "e", "--discard")
    assert store.run("fsck").out == "0 problems\n"


def test_damage_of_the_base_destroys_nothing(cowfs, tree):
    """What was changed cannot be compared with what cannot be read."""
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    chunk = (tree / "big").read_bytes()[2 << 17:3 << 17]
    cowfs.sh(point, "echo x | dd of=big bs=1 seek=300000 conv=notrunc "
                    "status=none")
    cowfs.run("umount", "e", "--keep")
    cowfs.run("daemon", "stop")
    segment = sorted((cowfs.path / "segments").iterdir())[0]
    data = bytearray(segment.read_bytes())
    at = data.find(chunk)
    assert at > 0
    data[at + 1000] ^= 1
    segment.write_bytes(data)
    result = cowfs.run("umount", "e", expect=3)
    assert "kept" in result.err, result
    assert envs(cowfs) == ["e"] and not rescues(cowfs)


def test_no_view_is_left(cowfs, tree):
    changed(cowfs, tree)
    cowfs.run("umount", "e")
    assert os.listdir(cowfs.path / "mnt") == []
    assert cowfs.run("doctor").lines()[-1] == "0 problems"
    cowfs.run("daemon", "stop")


def test_wrong_calls(cowfs, tree):
    cowfs.load(tree)
    cowfs.mount("base", "e")
    for args, code in ((["rescue"], 2), (["rescue", "what"], 2),
                       (["rescue", "show"], 2),
                       (["rescue", "ls", "x"], 2),
                       (["rescue", "restore", "x"], 2),
                       (["rescue", "prune"], 2),
                       (["rescue", "prune", "--older-than", "x"], 2),
                       (["rescue", "show", "nosuch"], 3),
                       (["rescue", "drop", "nosuch"], 3),
                       (["rescue", "restore", "nosuch", "f"], 3),
                       (["rescue", "restore", "nosuch", "a/b"], 2),
                       (["umount", "e", "--rescue-ignored", "x"], 2),
                       (["umount", "e", "--rescue-ignored", "all",
                         "--discard"], 2)):
        result = cowfs.run(*args, expect=code)
        assert one_line_error(result), result
    cowfs.sh(str(cowfs.path / "mnt/e"), "echo x > x")
    name = rescue_of(cowfs, "e")["rescue"]
    cowfs.mount("base", "f")
    assert "exists" in cowfs.run("rescue", "restore", name, "f", expect=3).err


def test_without_a_store_there_are_none(plain):
    assert plain.run("rescue", "ls").out == ""
    plain.run("rescue", "show", "x", expect=3)


def test_ten_thousand_changes(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.py(point, """
        for i in range(10000):
            if i % 100 == 0:
                os.mkdir(f'd{i}')
            open(f'd{i - i % 100}/f{i}', 'w').write(str(i))""", limit=300)
    rescue = rescue_of(cowfs, "e")
    assert rescue["files"] == 10000
    cowfs.run("rescue", "restore", rescue["rescue"], "f")
    found = cowfs.sh(cowfs.mount("f"), "cat d9900/f9999; ls | wc -l").out
    assert found.startswith("9999")


@pytest.mark.parametrize("how", ["mounted", "kept"])
def test_somebody_mounts_it_meanwhile(cowfs, tree, how):
    """One of both wins, and nothing is lost."""
    changed(cowfs, tree)
    if how == "kept":
        cowfs.run("umount", "e", "--keep")
    first = cowfs.spawn(["cowfs", "umount", "e"])
    second = cowfs.spawn(["cowfs", "mount", "e"])
    first, second = cowfs.finish(first, 60), cowfs.finish(second, 60)
    assert first.code in (0, 3, 4), first
    assert ("e" in envs(cowfs)) == (first.code != 0), (first, second)
    assert json.dumps(rescues(cowfs)).count("e-2") or first.code
