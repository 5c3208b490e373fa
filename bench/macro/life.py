# SPDX-License-Identifier: MIT
"""life.py - what an environment costs: works that make and end their own.

Each is a function of a contender and a tree as those of works.py are of a
place, and is in the same list. All make environments named after the run, and
end them whatever happens.
"""
import contextlib
import json
import os

from macro.child import Failed, Hangs, run, values
from macro.works import ANY, FILES, work

MANY = 20


@contextlib.contextmanager
def ended(place, *names):
    """Ends environments that a script made, also when it failed."""
    try:
        yield
    except Hangs:
        raise  # whoever catches it clears the whole contender away
    except BaseException:
        for name in names or (place.name,):
            with contextlib.suppress(Failed):
                place.contender.down(place.tree, name)
        raise


def alive(place, script):
    """A script that makes and ends its environment."""
    with ended(place):
        return values(script, place.env, place.limit)


@work("create", "life", sizes=ANY)
def create(place):
    """From the command to the first look at a file deep in it."""
    c = place.contender
    took, c.ended = alive(
        place, f't0; {c.create}\n[ -e "$AT/$PROBE" ]; t1; cd /\n{c.whole}\n'
        f't0; {c.destroy}\nt1\n[ ! -e "$AT/$PROBE" ] || '
        'wrong "it is still there"')
    return took


@work("destroy", "life", sizes=ANY)
def destroy(place):
    """Of the last one that create made, or of another: a million files are
    not copied twice for it."""
    if place.contender.ended is None:
        create(place)
    took, place.contender.ended = place.contender.ended, None
    return took


@work("destroy with 50,000 new files", "life", sizes=("small",), quick=False)
def destroy_full(place):
    c = place.contender
    return alive(place, f'{c.create}\ncd "$AT"\n'
                        'for i in {1..50}; do mkdir d$i; '
                        '(cd d$i; touch {1..1000}); done\n'
                        'same "$(find d[0-9]* -type f | wc -l)" 50000 files\n'
                        f'cd /; t0; {c.destroy}\nt1\n'
                        '[ ! -e "$AT/$PROBE" ] || wrong "it is still there"'
                 )[0]


def each(script):
    return (f'for i in {{1..{MANY}}}; do (ID=$ID0-$i; AT=$AT0-$i; {script}\n'
            ') & P[i]=$!; done; for i in "${!P[@]}"; do wait ${P[i]}; done\n')


def names(place):
    return [f"{place.name}-{i}" for i in range(1, MANY + 1)]


HEAD = 'AT0=$AT ID0=$ID\n'


@work("20 at once", "life", sizes=FILES)
def at_once(place):
    """All are started, then all are waited for; each must be whole."""
    c = place.contender
    with ended(place, *names(place)):
        took = values(HEAD + "t0\n" + each(
            f'{c.create}\n[ -e "$AT/$PROBE" ]') + 't1\n', place.env,
            place.limit)[0]
        values(HEAD + each(c.destroy) + "value 0\n", place.env, place.limit)
    return took


@work("disk used by 20", "life", sizes=ANY, unit="B")
def disk(place):
    """One file in each is changed. Only what 20 need more than none."""
    c = place.contender
    before = c.used()
    with ended(place, *names(place)):
        values(HEAD + f'for i in {{1..{MANY}}}; do ID=$ID0-$i; AT=$AT0-$i\n'
               f'{c.create}\necho $i >"$AT/changed"; cd /; done; sync\n'
               'value 0\n', place.env, place.limit)
        after = c.used()
        values(HEAD + f'for i in {{1..{MANY}}}; do '
               'same "$(cat "$AT0-$i/changed")" $i "the changed file"; done\n'
               + each(c.destroy) + 'value 0\n', place.env, place.limit)
    if after < before:
        raise Failed(f"{before - after} bytes less than before")
    return after - before


TESTS = r"""
npm test --silent -- -t rates 2>&1 | grep -q 'Tests:.* 1 passed'
cd py; ../.venv/bin/python -m pytest -q 2>&1 | grep -q '^1 passed'
cd ../rust; cargo test -q --offline every 2>&1 | grep -q 'ok\. 1 passed'
echo green"""


@work("cold start to the first green test", "cold", needs=("shop",))
def cold_start(place):
    """Nothing, then an environment with what the tests need; jest, pytest and
    cargo test have passed."""
    return started(place, TESTS)


JEST = ("npm test --silent -- -t rates 2>&1 | grep -q 'Tests:.* 1 passed'; "
        "echo green")


@work("create, and one jest test", "cold", needs=("shop",))
def first_jest(place):
    return started(place, JEST)


@work("first green test", "first", needs=("shop",), quick=False)
def first_green(place):
    """Native: one jest test where it has passed before. cowfs: an environment
    of such a directory, and the same test."""
    c = place.contender
    if c.create_is_first:
        return started(place, JEST)
    c.up(place.tree, place.name)
    with ended(place):
        place.entered(JEST, "", 'same "$OUT" green tests')
        took = place.entered(JEST, "", 'same "$OUT" green tests')
    c.down(place.tree, place.name)
    return took


def started(place, script):
    c = place.contender
    with ended(place):
        took = place.entered(
            script, f'{c.create}\n(cd "$AT"; {c.deps or ":"} )\n'
            'cd /', 'same "$OUT" green tests')
    c.down(place.tree, place.name)
    return took


@work("run true in a sandbox", "box", sizes=("small",))
def box(place):
    c = place.contender
    c.up(place.tree, place.name)
    with ended(place):
        # The first makes what the sandbox of an environment needs.
        place.entered("echo yes", "", 'same "$OUT" yes output')
        took = place.entered("echo yes", "", 'same "$OUT" yes output')
    c.down(place.tree, place.name)
    return took


# crun refuses the hybrid cgroups of some machines: it gets a folder of its own.
CRUN = ("unshare -m sh -c 'mount -t cgroup2 none /sys/fs/cgroup; exec crun "
        "--cgroup-manager=disabled run -b \"$1\" \"$2\"' sh \"$B\" \"$ID\"")


@work("container start to first output", "container", needs=("root",))
def container(place):
    """From a root file system that is not there to the first line printed;
    removing it is not in."""
    c = place.contender
    start = getattr(c, "start", CRUN)
    with ended(place):
        took = values(
            'B=$TMP/bundle-$ID; mkdir "$B"; cd "$B"\n'
            'sed "s|@ROOT@|$AT|" "$TMP/config.json" >config.json\n'
            f't0; {c.create}\nread -r LINE < <({start} 2>err) || :; t1\n'
            'same "${LINE:-$(tail -n 1 err)}" hello "first line"\n'
            'wait $! || :; cd /; rm -r "$B"\n', place.env, place.limit)[0]
    c.down(place.tree, place.name)
    return took


def write_config(folder):
    """What crun spec writes, for a command without a terminal."""
    run("cd \"$TMP\"; rm -f config.json; crun spec", dict(
        os.environ, TMP=str(folder)))
    path = folder / "config.json"
    spec = json.loads(path.read_text())
    spec["process"].update(terminal=False, args=["/bin/echo", "hello"])
    spec["root"] = {"path": "@ROOT@", "readonly": False}
    path.write_text(json.dumps(spec))


SLEEPERS = "for i in {1..200}; do sleep 600 >/dev/null 2>&1 & done; echo yes"


@work("database start", "own", needs=("shop",), quick=False)
def database(place):
    """The cluster that lies in the tree, ready for queries."""
    with ended(place):
        took = values(
            'cowfs mount "$NAME" "$ID" >/dev/null\n'
            't0; cowfs db start "$ID" >/dev/null; t1\n'
            'same "$(cowfs run "$ID" -- psql -U postgres -XAtc "select 1" '
            'postgres)" 1 "a query"', place.env, place.limit)[0]
    place.contender.down(place.tree, place.name)
    return took


@work("destroy, busy", "own", needs=("shop",), quick=False)
def destroy_busy(place):
    """With a database, a server and 200 processes."""
    with ended(place):
        return values(
            'cowfs mount "$NAME" "$ID" >/dev/null\n'
            'cowfs db start "$ID" >/dev/null\n'
            'cowfs run "$ID" --detach -- node server.js >/dev/null\n'
            f'same "$(cowfs run "$ID" -- bash -c \'{SLEEPERS}\')" yes output\n'
            't0; cowfs umount "$ID" --discard; t1\n'
            '[ ! -e "$AT/$PROBE" ] || wrong "it is still there"', place.env,
            place.limit)[0]
