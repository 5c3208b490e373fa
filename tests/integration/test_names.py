# SPDX-License-Identifier: MIT
"""snapshots, tag, rm, ps, show: names of things."""
import pytest
from helpers import one_line_error


def names(store):
    return {(r.get("name"), r.get("tag"))
            for r in store.run("--json", "snapshots").json()}


def test_snapshots_lists_what_was_imported(plain, tree):
    sid = plain.load(tree, "proj:v1")
    rows = plain.run("--json", "snapshots").json()
    assert len(rows) == 1 and rows[0]["v"] == 1
    assert sid in rows[0].values()
    assert "proj" in plain.run("snapshots").out


def test_an_empty_store_lists_nothing(plain):
    assert plain.run("--json", "snapshots", expect=None).out == ""
    assert plain.run("--json", "ps", expect=None).out == ""


def test_tag_adds_a_name_and_rm_takes_it(cowfs, tree):
    sid = cowfs.load(tree, "proj:v1")
    cowfs.run("tag", "proj:v1", "other:x")
    cowfs.run("tag", sid, "third")
    for name in ("other:x", "third", "third:latest"):
        cowfs.run("umount", "--all", "--discard")
        point = cowfs.mount(name, "e")
        assert cowfs.sh(point, "cat a.txt").out == "alpha\n"
    cowfs.run("umount", "e")
    cowfs.run("rm", "other:x")
    result = cowfs.run("mount", "other:x", "e", expect=3)
    assert one_line_error(result), result
    cowfs.mount("proj:v1", "e")


def test_an_environment_outlives_the_name(cowfs, tree):
    cowfs.load(tree, "proj")
    point = cowfs.mount("proj", "e")
    cowfs.sh(point, "echo x > new")
    cowfs.run("rm", "proj")
    assert cowfs.sh(point, "cat new a.txt").out == "x\nalpha\n"
    cowfs.run("umount", "e", "--keep")
    point = cowfs.mount("e")
    assert cowfs.sh(point, "cat new a.txt").out == "x\nalpha\n"


def test_rm_says_what_stays(cowfs, tree):
    cowfs.load(tree, "y")
    cowfs.mount("y", "e1")
    said = cowfs.run("rm", "y", "--dry-run").err
    assert said == ("cowfs rm: y:latest: would be removed; environments "
                    "still stand on it: e1\n")
    said = cowfs.run("rm", "y").err
    assert said == ("cowfs rm: y:latest: removed; environments still stand "
                    "on it: e1\n")


def test_importing_again_moves_the_name(plain, tree):
    first = plain.load(tree, "proj")
    (tree / "more").write_text("x")
    second = plain.load(tree, "proj")
    out = plain.run("--json", "snapshots").out
    assert second != first and second in out


@pytest.mark.parametrize("name", ["-x", ".x", "a b", "a/b", "", "x" * 65,
                                  "a:", "a:b:c", "ü", "a:.b"])
def test_bad_names_are_usage(plain, tree, name):
    result = plain.run("import", tree, "--tag=" + name, expect=None)
    assert result.code == 2 and one_line_error(result), result


@pytest.mark.parametrize("name", ["a", "_x", "9", "a.b-c_D", "x" * 64,
                                  "a:v1.0", "A:_"])
def test_good_names(plain, tree, name):
    plain.run("import", tree, "-t", name)
    plain.run("rm", name)


def test_an_unknown_name_hints_at_near_ones(plain, tree):
    plain.load(tree, "project")
    result = plain.run("rm", "projekt", expect=3)
    assert one_line_error(result) and "project" in result.err, result


def test_ps_and_show(cowfs, tree):
    cowfs.load(tree)
    point = cowfs.mount("base", "e")
    cowfs.sh(point, "echo x > new")
    row, = cowfs.run("--json", "ps").json()
    assert (row["v"], row["name"], row["path"]) == (1, "e", point)
    out = cowfs.run("ps").out
    assert "e" in out and point in out
    shown, = cowfs.run("--json", "show", "e").json()
    assert shown["v"] == 1 and shown["name"] == "e"
    assert "e" in cowfs.run("show", "e").out
    cowfs.run("show", "nothing", expect=3)
