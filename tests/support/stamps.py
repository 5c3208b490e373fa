# SPDX-License-Identifier: MIT
"""stamps.py - files whose every sector says what it is, and what they may be.

A sector holds its file's number, its place and the number of the operation
that wrote it, 32 times over. So after a power cut each sector tells where it
comes from: old, new, foreign or nothing.

History takes the operations of one process in their order. What comes back
after a cut must be one state of that history, not older than what was
acknowledged as synced and not newer than what had begun: the names and sizes
of that state exactly; in each sector what it held then, or at any later time
before the cut (files are overwritten in place).
"""
import struct

SECTOR = 512
HEAD = struct.Struct("<4sIII")
MAGIC = b"STMP"
ZERO = bytes(SECTOR)


def stamp(file, sector, version):
    return HEAD.pack(MAGIC, file, sector, version) * (SECTOR // HEAD.size)


def stamps(file, first, count, version):
    return b"".join(stamp(file, first + i, version) for i in range(count))


def read_stamps(data):
    """A list: 0 for zeros, (file, sector, version), or None for what is none
    of these."""
    found = []
    for at in range(0, len(data), SECTOR):
        sector = data[at:at + SECTOR]
        if sector == ZERO[:len(sector)]:
            found.append(0)
            continue
        head = sector[:HEAD.size]
        good = head.startswith(MAGIC) and \
            sector == head * (SECTOR // HEAD.size)
        found.append(HEAD.unpack(head)[1:] if good else None)
    return found


class History:
    """The operations, and the states that they make. An operation is a tuple;
    its number is its place, from 1; state n is what operation n leaves."""

    def __init__(self):
        self.count = 0
        self.names = {}  # path: number of the file
        self.sizes = {}  # number: sectors
        self.content = {}  # number: {sector: [(operation, version)]}
        self.states, self.ops = [{}], [None]

    def add(self, op):
        self.count += 1
        self.ops.append(op)
        getattr(self, "on_" + op[0])(*op[1:])
        self.states.append({path: (file, self.sizes[file])
                            for path, file in self.names.items()})
        return self.count

    def set(self, file, first, count, version):
        sectors = self.content[file]
        for s in range(first, first + count):
            sectors.setdefault(s, []).append((self.count, version))

    def on_create(self, path):
        self.names[path] = self.count
        self.sizes[self.count] = 0
        self.content[self.count] = {}

    def on_write(self, path, first, count):
        file = self.names[path]
        self.set(file, first, count, self.count)
        self.sizes[file] = max(self.sizes[file], first + count)

    on_write_sync = on_map = on_write

    def on_truncate(self, path, sectors):
        file = self.names[path]
        gone = [s for s, seen in self.content[file].items()
                if s >= sectors and seen[-1][1]]
        for s in gone:
            self.set(file, s, 1, 0)
        self.sizes[file] = sectors

    def on_hole(self, path, first, count):
        self.set(self.names[path], first, count, 0)

    def on_rename(self, old, new):
        if self.names[old] != self.names.get(new):
            self.names[new] = self.names.pop(old)

    def on_link(self, old, new):
        self.names[new] = self.names[old]

    def on_unlink(self, path):
        del self.names[path]

    def on_fsync(self, path):
        pass

    on_fsync_folder = on_read = on_fsync

    def present(self, path):
        """What read_stamps has to find in the file now."""
        file = self.names[path]
        versions = (self.version(file, s, self.count)
                    for s in range(self.sizes[file]))
        return [(file, s, v) if v else 0 for s, v in enumerate(versions)]

    # -- judging ------------------------------------------------------------
    def version(self, file, sector, state):
        seen = [v for n, v in self.content[file].get(sector, [])
                if n <= state]
        return seen[-1] if seen else 0

    def allowed(self, file, sector, state, last):
        later = {v for n, v in self.content[file].get(sector, [])
                 if state < n <= last}
        return later | {self.version(file, sector, state)}

    def wrong_sectors(self, dump, state, last):
        for path, (file, _) in self.states[state].items():
            for s, found in enumerate(dump[path]):
                want = self.allowed(file, s, state, last)
                if found == 0 and 0 in want:
                    continue
                if not found or tuple(found[:2]) != (file, s) or \
                        found[2] not in want:
                    yield (f"{path} sector {s}: {found}, wanted file {file}, "
                           f"versions {sorted(want)}")
                    return

    def is_growing(self, shape, state, last):
        """Says whether the next operation, a write, was made in part."""
        if state >= last or not self.ops[state + 1][0].startswith("write"):
            return False
        before, after = self.states[state], self.states[state + 1]
        return shape.keys() == before.keys() and all(
            before[p][1] <= shape[p] <= after[p][1] for p in before)

    def judge(self, dump, acked, last):
        """dump: {path: stamps}. Returns what is wrong, or None."""
        shape = {path: len(found) for path, found in dump.items()}
        reasons = []
        for state in range(acked, last + 1):
            sizes = {p: size for p, (_, size) in self.states[state].items()}
            if sizes != shape and not self.is_growing(shape, state, last):
                continue
            wrong = next(self.wrong_sectors(dump, state, last), None)
            if not wrong:
                return None
            reasons.append(f"state {state}: {wrong}")
        if reasons:
            return reasons[0]
        want = {p: size for p, (_, size) in self.states[acked].items()}
        differ = sorted(set(want.items()) ^ set(shape.items()))
        return (f"names and sizes are those of no state {acked}..{last}; "
                f"against the first: {differ[:6]}")
