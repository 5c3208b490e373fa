# SPDX-License-Identifier: MIT
"""What the manual shows is what happens: the tutorial's commands and the
examples of every page run as they stand, the options of --help are on the
pages, and cowfs-json(5) has the keys that come out, no more and no fewer."""
import json
import re
import shutil

import pytest
from cluster import make_cluster
from conftest import make_tree, skip_unless
from helpers import HERE

MAN = HERE.parents[1] / "docs/man"
PAGES = sorted(p.name for p in MAN.glob("*.1"))
ESCAPES = {"(dq": '"', "e": "\\", "-": "-", "&": "", "(aq": "'"}


def plain_text(line):
    return re.sub(r"\\(\(..|.)", lambda m: ESCAPES[m[1]], line)


@pytest.fixture
def shop(cowfs):
    """A home with the project that the manual speaks of."""
    cowfs.home = cowfs.folder / "home"
    make_tree(cowfs.home / "src/shop")
    (cowfs.home / "src/shop/README.md").write_text("the shop\n")
    cowfs.env["HOME"] = str(cowfs.home)
    yield cowfs
    shutil.rmtree(cowfs.home)


def run_lines(store, lines, cwd=None):
    """Runs lines in one bash; returns for each its output and exit code."""
    script = "".join(f"{{ {line}\n}} 2>&1\necho \"@@ $?\"\n" for line in lines)
    child = store.spawn(["timeout", "-s", "KILL", "60", "bash", "-uc",
                         script], cwd=cwd or store.home)
    result = store.finish(child, 70)
    parts = re.findall(r"(.*?)@@ (\d+)\n", result.out, re.S)
    assert len(parts) == len(lines), result
    return [(out, int(code)) for out, code in parts]


# --- the tutorial ----------------------------------------------------------

# what ends otherwise than with 0; doctor looks at the whole machine
CODES = {"cowfs doctor": (0, 1)}


def tutorial():
    """Each command with the lines that it is shown to print."""
    page = (MAN / "cowfs.7").read_text()
    for block in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page,
                            re.S | re.M):
        steps = re.split(r"^\$ ", block, flags=re.M)
        assert steps[0] == "", block
        for step in steps[1:]:
            command, _, shown = step.partition("\n")
            yield plain_text(command), plain_text(shown)


def test_the_tutorial(shop):
    steps = [(c.replace("/var/lib/cowfs", str(shop.path)),
              s.replace("/var/lib/cowfs", str(shop.path)))
             for c, s in tutorial()]
    assert len(steps) > 15
    results = run_lines(shop, [c for c, _ in steps])
    for (command, shown), (out, code) in zip(steps, results):
        assert code in CODES.get(command, (0,)), (command, out)
        # An id depends on the tree.
        if re.fullmatch(r"[0-9a-f]{48}\n", shown):
            assert re.fullmatch(r"[0-9a-f]{48}\n", out), out
        elif shown.endswith("...\n"):
            assert out.startswith(shown[:-4]) and out != shown[:-4], out
        elif shown:
            assert out == shown, command
    assert not shop.run("snapshots", "--json").out


# --- the examples ----------------------------------------------------------

def in_its_shell(line):
    if line.endswith("| source"):
        return f"fish --no-config -c '{line}'"
    if "completion zsh" in line:
        return f"zsh -fc 'autoload -Uz compinit; compinit -D -u; {line}'"
    return line


@pytest.mark.parametrize("page", [p for p in PAGES if p != "cowfs.1"] +
                         ["cowfs-json.5"])
def test_examples(shop, page):
    """Every page has some, and they work on what the tutorial has made."""
    text = (MAN / page).read_text()
    examples = re.search(r"^\.Sh EXAMPLES\n(.*?)^\.Sh", text, re.S | re.M)
    assert examples, f"{page} has no examples"
    lines = [plain_text(line) for line in
             re.findall(r"^\.Dl (.*)$", examples[1], re.M)]
    assert lines
    if page == "cowfs-save.1":
        shop.sh(shop.home / "src/shop", "git init -q; git add -A; git -c "
                "user.name=t -c user.email=t commit -qm shop")
    if page == "cowfs-import.1":
        for cache in (".npm", ".cargo"):
            (shop.home / cache).mkdir()
    if page == "cowfs-run.1":
        for name in ("package.json", "package-lock.json"):
            (shop.home / "src/shop" / name).write_text(json.dumps(
                {"name": "shop", "version": "1.0.0", "lockfileVersion": 3,
                 "packages": {"": {"name": "shop", "version": "1.0.0"}}}))
    if page == "cowfs-db.1":
        make_cluster(shop.home / "src/shop/pgdata", "create table users ()")
    shop.load(shop.home / "src/shop", "shop")
    shutil.copytree(shop.home / "src/shop", shop.home / "copy", symlinks=True)
    shop.run("tag", "shop", "shop:green")
    shop.sh(shop.mount("shop", "anna"), "echo more >> README.md")
    for name, mark in {"jq": " | jq", "fish": "| source", "zsh": "zsh"}.items():
        if any(mark in line for line in lines):
            skip_unless(shutil.which(name), name)
    commands = [in_its_shell(line) for line in lines]
    for line, (out, code) in zip(lines, run_lines(shop, commands)):
        ok = (0, 1) if line.startswith("cowfs doctor") else (0,)
        assert code in ok, (line, out)


# --- options ---------------------------------------------------------------

@pytest.mark.parametrize("page", [p for p in PAGES if p != "cowfs.1"])
def test_options_of_help_are_on_the_page(plain, page):
    """As help prints them, so from the program and not from its source."""
    verb = page[len("cowfs-"):-len(".1")]
    text = plain.run("help", verb).out
    own, _, every = text.partition("options of every command:")
    items = set(re.findall(r"^\.It Fl -(\S+)", (MAN / page).read_text(),
                           re.M))
    assert set(re.findall(r"^ .*?--([a-z-]+)", own, re.M)) == items
    common = set(re.findall(r"^ .*?--([a-z-]+)", every, re.M))
    overview = set(re.findall(r"^\.It Fl -(\S+)",
                              (MAN / "cowfs.1").read_text(), re.M))
    assert common == overview and "store" in common


# --- JSON ------------------------------------------------------------------

def documented():
    """For each command its keys, and which of them are in every object."""
    page = (MAN / "cowfs-json.5").read_text()
    parts = re.split(r"^\.Ss cowfs (\w+)$", page, flags=re.M)
    for verb, text in zip(parts[1::2], parts[2::2]):
        items = re.findall(r"^\.It Va (\w+)\n(.*?)(?=^\.It|^\.El)", text,
                           re.S | re.M)
        yield verb, {k for k, _ in items}, {k for k, t in items
                                            if not re.search(r"^\.Pq", t,
                                                             re.M)}


def save_one(shop):
    repo = shop.folder / "repo"
    shop.sh(shop.folder, "git init -q repo; cd repo; echo 1 > f; git add f; "
            "git -c user.name=t -c user.email=t commit -qm f")
    shop.run("import", repo, "-t", "repo")
    shop.sh(shop.run("mount", "repo", "saver").out.strip(), "echo 2 > f")
    row, = shop.run("--json", "save", "saver").json()
    shop.run("umount", "saver", "--discard")
    return row


def everything(shop):
    """Runs each command so that all of its keys come out."""
    tree = shop.home / "src/shop"
    make_cluster(tree / "pgdata", "create table users ()")

    def rows(*args, expect=0):
        return shop.run("--json", *args, expect=expect).json()

    yield "import", rows("import", tree, "-t", "shop")
    yield "export", rows("export", "shop", "--tar", shop.home / "out.tar")
    yield "daemon", rows("daemon", "status", expect=1)
    yield "mount", rows("mount", "shop", "anna", "--quota", "1G,100000",
                         "--ttl", "1h", "--port", "3000", "--port", "5432")
    yield "daemon", rows("daemon", "status")
    shop.sh(shop.path / "mnt/anna", "rm a.txt; echo x > new; mkdir hollow; "
            "mv run.sh walk.sh; echo y >> b.txt; rm link; mkdir link")
    shop.py(shop.path / "mnt/anna", r"open(b'\xff', 'w').close()")
    yield "diff", rows("diff", "anna")
    yield "diff", rows("diff", "anna", "--patch")
    yield "ps", rows("ps")
    yield "show", rows("show", "anna")
    yield "env", rows("env", "anna")
    yield "stat", rows("stat", "anna")
    yield "db", rows("db", "status", "anna")
    yield "db", rows("db", "start", "--database", "shop", "anna")
    yield "ports", rows("ports", "anna")
    run_in_many_ways(shop)
    for args in (["anna"], ["anna", "1"], ["anna", "1", "-f"]):
        yield "logs", rows("logs", *args)
    yield "kill", rows("kill", "anna")
    yield "umount", rows("umount", "anna", "--dry-run")
    yield "save", [save_one(shop)]
    yield "snapshots", rows("snapshots")
    yield "df", rows("df")
    yield "gc", rows("gc", "--dry-run")
    yield "settings", rows("settings")
    yield "version", rows("version")
    yield "doctor", shop.run("--json", "doctor", expect=None).json()
    yield "umount", rows("umount", "anna", "--artifacts", shop.home / "out")
    yield "rescue", rows("rescue", "ls")
    yield "rescue", rows("rescue", "prune", "--older-than", "0")
    yield "rm", rows("rm", "shop", "--dry-run")
    shop.run("daemon", "stop")
    yield "fsck", rows("fsck")
    damage(shop)
    yield "fsck", rows("fsck", expect=1)
    yield "fsck", rows("fsck", "--repair", expect=None)


def run_in_many_ways(shop):
    noise = "head -c 2000000 /dev/zero | tr '\\0' a"
    for end, *args in ((0, "--", "sh", "-c", f"{noise}; {noise} >&2"),
                       (124, "--timeout", "1", "--", "sleep", "60"),
                       (137, "--", "sh", "-c", "kill -9 $$"),
                       (0, "-d", "--", "true"),
                       (0, "--", "true", *["x" * 1000] * 20)):
        shop.run("run", "anna", *args, expect=end)


# What only a broken disk brings forth, or hundreds of processes.
RARE = {"logs": {"stdout_lost_bytes", "stderr_lost_bytes"},
        "umount": {"stopped_more"}}


def damage(shop):
    """A byte of a file's content, so that a path is hit."""
    for path in (shop.path / "segments").iterdir():
        data = bytearray(path.read_bytes())
        at = data.find(b"beta\nbeta\n")
        if at >= 0:
            data[at + 3] ^= 1
            path.write_bytes(data)
            return
    raise AssertionError("no segment has the file")


def test_json_keys(shop):
    shop.log_skip = ["damage"]
    seen, rows_of = {}, {}
    for verb, rows in everything(shop):
        seen.setdefault(verb, set()).update(*rows)
        rows_of.setdefault(verb, []).extend(rows)
    told = {verb: (keys, always) for verb, keys, always in documented()}
    assert set(told) == set(seen)
    for verb, (keys, always) in told.items():
        extra = {k for k in seen[verb] if k.endswith("_hex")}
        assert seen[verb] - extra - {"v"} == keys - RARE.get(verb, set()), verb
        for row in rows_of[verb]:
            assert row["v"] == 1, row
            if verb != "df":  # two kinds of objects
                assert always <= set(row), (verb, row)
    assert "path_hex" in seen["diff"], "one name is not UTF-8"
    kinds = {r["kind"]: set(r) - {"v"} for r in rows_of["df"]}
    assert set().union(*kinds.values()) == told["df"][0]


def test_other_commands_print_no_json(shop):
    """"The other commands print nothing, or text.\""""
    shop.run("import", shop.home / "src/shop", "-t", "shop")
    told = {verb for verb, _, _ in documented()}
    assert not shop.run("--json", "tag", "shop", "x").out
    shop.mount("shop", "anna")
    assert not shop.run("--json", "set", "anna", "--ttl", "1h").out
    for verb in ("help", "completion"):
        out = shop.run("--json", verb,
                       *(["bash"] if verb == "completion" else [])).out
        with pytest.raises(json.JSONDecodeError):
            json.loads(out.splitlines()[0])
    verbs = {p[len("cowfs-"):-2] for p in PAGES if p != "cowfs.1"}
    assert verbs - told == {"tag", "set", "run", "help", "completion"}
