# SPDX-License-Identifier: MIT
"""works.py - what is measured in an environment that is there.

A work is a function of a place, which returns what it took, or raises
child.Failed: each compares its result with what is right, outside of the clock.
Works of a place come one after the other, in this order: those that change it
are last.
"""
import os

from macro.child import run, values

WORKS = []
DROP = "sync; echo 3 > /proc/sys/vm/drop_caches; "


class Work:
    def __init__(self, function, name, group, needs, sizes, unit, quick):
        self.function, self.name, self.group = function, name, group
        self.needs, self.sizes, self.unit = set(needs), sizes, unit
        self.quick = quick
        self.slug = "".join(c for c in name if c.isalnum())[:20]

    def suits(self, tree, contender, quick):
        takes = contender.takes & contender.quick if quick else \
            contender.takes
        if self.name.endswith(", cold") and os.geteuid():
            return False  # only root may drop caches
        if self.group == "work" and contender.works_in is not None and \
                tree.name not in contender.works_in:
            return False
        return (self.group in takes and (self.quick or not quick) and
                self.needs <= tree.has and
                (not self.sizes or tree.name in self.sizes) and
                self.name not in contender.without)


def work(name, group="work", needs=(), sizes=(), unit="s", quick=True):
    """needs: what the tree must have; sizes: of which trees, all when
    empty; quick: whether --quick takes it."""
    def register(function):
        WORKS.append(Work(function, name, group, needs, sizes, unit, quick))
        return function
    return register


class Place:
    """An environment of a contender, and the scripts that run in it."""

    def __init__(self, contender, tree, name):
        self.contender, self.tree, self.name = contender, tree, name
        self.bench = contender.bench
        self.limit = self.bench.limit
        self.env = contender.variables(tree, name)

    def timed(self, script):
        """Seconds of a script between t0 and t1, in the environment."""
        return values('cd "$AT"\n' + script, self.env, self.limit)[0]

    def entered(self, script, before="", after=""):
        """Seconds from `before`, outside, to the end of a script that is run
        in the environment in the contender's way. Its output is in $OUT."""
        env = dict(self.env, SCRIPT=script)
        return values(f't0; {before}\nOUT=$( {self.contender.enter} )\nt1\n'
                      + after, env, self.limit)[0]

    def run(self, script):
        return run('cd "$AT"\n' + script, self.env, self.limit)


NODE = ("node",)
FILES = ("small", "medium")
ANY = ("small", "medium", "large")


@work("1 byte in a huge file", needs=("huge",))
def one_byte(place):
    """A sync before it, or it pays for the copy."""
    used = place.contender.used()
    seconds = values(r"""
        cd "$AT"; sync
        perl -MTime::HiRes=clock_gettime,CLOCK_MONOTONIC -e '
            my $at = (-s "huge") / 2 + 1234;
            my $t = clock_gettime(CLOCK_MONOTONIC);
            open(my $f, "+<", "huge") or die;
            sysseek($f, $at, 0) && syswrite($f, "Z") == 1 && close($f)
                or die;
            printf "VALUE %.9f\n", clock_gettime(CLOCK_MONOTONIC) - $t'
        same "$(stat -c %s huge)" "$(stat -c %s "$TREE/huge")" size
        AT=$(($(stat -c %s huge) / 2 + 1234)); sync
        same "$(dd if=huge bs=1 skip=$AT count=1 status=none)" Z byte
        """, place.env, place.limit)[0]
    place.run("""
        [ $(cmp -l huge "$TREE/huge" | wc -l) -le 1 ] ||
            wrong "more than a byte has changed" """)
    place.contender.grown = place.contender.used() - used
    return seconds


@work("1 byte in a huge file, disk", needs=("huge",), unit="B")
def one_byte_disk(place):
    """By that byte; nothing else wrote there meanwhile."""
    return place.contender.grown


@work("find, cold", sizes=ANY)
def find_cold(place):
    return cold(place, "find . | wc -l", '"$COUNT"')


def cold(place, command, right):
    return place.timed(f'{DROP} t0; OUT=$({command}); t1; '
                       f'same "$OUT" {right} result')


def warm(place, command, right):
    """The first fills the kernel's caches; after it the kernel asks a FUSE
    server once more for what it read: reading changes the access time."""
    return place.timed(
        f'for i in 1 2; do {command} >/dev/null; done; '
        f't0; OUT=$({command}); t1; same "$OUT" {right} result')


@work("find, warm", sizes=ANY)
def find_warm(place):
    return warm(place, "find . | wc -l", '"$COUNT"')


@work("git status, cold", needs=("git",), sizes=ANY, quick=False)
def git_cold(place):
    """Of a copied tree the first one also reads files: it is not this."""
    place.run("git status --porcelain >/dev/null")
    return cold(place, "git status --porcelain", "''")


@work("git status, warm", needs=("git",), sizes=ANY)
def git_warm(place):
    return warm(place, "git status --porcelain", "''")


TAR = "tar cf - --sort=name . | wc -c"


def tar_bytes(place):
    """Of the origin; names and sizes are the same, so the tar's length is."""
    tree = place.tree
    if not hasattr(tree, "tar"):
        tree.tar = run(f'cd "$TREE"; {TAR}', place.env, place.limit).strip()
    return tree.tar


@work("tar, cold", sizes=FILES, quick=False)
def tar_cold(place):
    return cold(place, TAR, tar_bytes(place))


@work("tar, warm", sizes=FILES)
def tar_warm(place):
    """GNU tar to /dev/null does not read files: hence the pipe."""
    return warm(place, TAR, tar_bytes(place))


@work("grep -r, warm", sizes=FILES, quick=False)
def grep(place):
    return warm(place, "{ grep -r zzzyyyxxxq . || :; } | wc -l", "0")


@work("node require", needs=NODE, sizes=FILES)
def require(place):
    """Three times: once is mostly node's own start."""
    names = "['jest', '@babel/core', 'jest-cli']"
    if "tsc" in place.tree.has:
        names = "['jest', 'webpack', 'eslint', 'typescript', 'lodash']"
    script = f"for (const n of {names}) require(n); console.log('ok')"
    return warm(place, f'node -e "{script}"', "ok")


@work("tsc", needs=("tsc",))
def tsc(place):
    place.run("""cat >src/all.ts <<'END'
import { addDays } from 'date-fns';
import type { NextConfig } from 'next';
const c: NextConfig = {};
export const y: Date = addDays(new Date(0), 1); export { c };
END""")
    return place.timed("""
        tsc() { node node_modules/typescript/bin/tsc --skipLibCheck \
            --moduleResolution node --target es2020 --module commonjs \
            --esModuleInterop --outDir "$1" src/all.ts; }
        tsc o1; t0; tsc o2; t1
        grep -q 'addDays' o2/all.js || wrong "no output of tsc"
        rm -r o1 o2 src/all.ts""")


@work("jest", needs=NODE, sizes=FILES, quick=False)
def jest(place):
    return place.timed(jest_script(place) + """
        jest >/dev/null 2>&1; t0; OUT=$(jest 2>&1); t1
        grep -q 'Tests:.* 1 passed' <<<"$OUT" || wrong "$OUT" """)


def jest_script(place):
    only = "-t rates" if "shop" in place.tree.has else ""
    return f"jest() {{ npx --no-install jest --ci {only}; }}\n"


@work("cargo build, one line changed", needs=("shop",), quick=False)
def cargo(place):
    """Where the environment is, crates are built first: their place is in
    what cargo compares."""
    return place.timed(r"""
        cd rust; export CARGO_NET_OFFLINE=true
        cargo build -q
        sed -i '0,/all.push(0)/s//all.push(4711)/' src/lib.rs
        t0; cargo build -q; t1
        same "$(target/debug/shop | head -n 1)" 4711 "what was built prints"
        """)


@work("npm ci", needs=NODE, sizes=("small", "medium"), quick=False)
def npm_ci(place):
    return place.timed(r"""
        n=$(find node_modules -type f | wc -l)
        t0; npm ci --offline --legacy-peer-deps --ignore-scripts >/dev/null
        t1; m=$(find node_modules -type f | wc -l)
        [ $m -gt 1000 ] && [ $m -ge $((n * 9 / 10)) ] ||
            wrong "$m files of $n in node_modules" """)


@work("cp -r", sizes=FILES)
def copy(place):
    return place.timed(r"""
        P=$(ls -d node_modules 2>/dev/null || echo 0)
        t0; cp -r $P copy; t1
        same "$(find copy | wc -l)" "$(find $P | wc -l)" "files of the copy"
        rm -rf copy""")


@work("untar", sizes=FILES)
def untar(place):
    return place.timed(r"""
        P=$(ls -d node_modules 2>/dev/null || echo 0)
        [ -e "$TMP/$NAME.tar" ] || tar cf "$TMP/$NAME.tar" -C "$TREE" $P
        mkdir untarred; cat "$TMP/$NAME.tar" >/dev/null
        t0; tar xf "$TMP/$NAME.tar" -C untarred; t1
        same "$(find untarred | wc -l)" \
            $(($(tar tf "$TMP/$NAME.tar" | wc -l) + 1)) "files unpacked"
        rm -rf untarred""")


@work("4 KiB writes, 32 MiB file", sizes=("small",))
def writes(place):
    return place.timed("""
        t0; dd if=/dev/urandom of=w bs=4096 count=8192 status=none; t1
        same $(stat -c %s w) 33554432 size; rm w""")


def sqlite(place, mode, count):
    return place.timed(f"""
        python3 - <<'END'
import sqlite3, time
db = sqlite3.connect('db.sqlite', isolation_level=None)
db.execute('pragma journal_mode={mode}')
db.execute('pragma synchronous=full')
db.execute('create table t (id integer primary key, v text)')
start = time.perf_counter()
for i in range({count}):
    db.execute('begin')
    db.execute('insert into t (v) values (?)', ('x' * 100,))
    db.execute('commit')
took = time.perf_counter() - start
rows = db.execute('select count(*), sum(length(v)) from t').fetchone()
assert rows == ({count}, {count} * 100), rows
assert db.execute('pragma integrity_check').fetchone() == ('ok',)
print(f'VALUE {{took:.6f}}')
END
        rm db.sqlite*""")


@work("SQLite, 500 transactions, WAL", sizes=("small",))
def sqlite_wal(place):
    return sqlite(place, "wal", 500)


@work("SQLite, 200 transactions, DELETE", sizes=("small",), quick=False)
def sqlite_delete(place):
    return sqlite(place, "delete", 200)


@work("PostgreSQL, pgbench", needs=("shop",), quick=False)
def pgbench(place):
    """1,000 transactions by two clients, every one committed to the disk."""
    return place.timed(r"""
        B=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
        as() { if [ $EUID = 0 ]; then setpriv --reuid postgres \
            --regid postgres --clear-groups -- "$@"; else "$@"; fi; }
        D=$PWD/pgdata; S=$(mktemp -d); mkdir "$D"
        [ $EUID != 0 ] || chown postgres "$D" "$S"
        end() { as "$B/pg_ctl" -D "$D" -m immediate stop >/dev/null 2>&1 || :
            rm -rf "$S" "$D"; }
        trap end EXIT
        as "$B/initdb" -A trust -E UTF8 --no-locale -N -U postgres -D "$D" \
            >/dev/null
        as "$B/pg_ctl" -D "$D" -w -s -l "$S/log" \
            -o "-k $S -c listen_addresses=" start >/dev/null
        sql() { psql -qXAth "$S" -U postgres -c "$1" postgres; }
        bench() { pgbench -h "$S" -U postgres "$@" postgres; }
        bench -q -i -s 2 >/dev/null 2>&1
        t0; OUT=$(bench -n -c 2 -t 500 2>/dev/null); t1
        grep -q 'actually processed: 1000/1000' <<<"$OUT" || wrong "$OUT"
        same "$(sql 'select count(*) from pgbench_history')" 1000 rows
        same "$(sql 'select sum(abalance) from pgbench_accounts')" \
            "$(sql 'select sum(delta) from pgbench_history')" balances
        """)


@work("rm -rf of what the tree has", sizes=FILES)
def remove(place):
    """The last: it leaves nothing."""
    return place.timed(r"""
        P=$(ls -d node_modules 2>/dev/null || echo 0)
        t0; rm -rf $P; t1; [ ! -e $P ] || wrong "$P is still there" """)
