# SPDX-License-Identifier: MIT
"""replay.py - from the log of a disk (cutdisk.c) to what a power cut leaves.

A disk promises nothing but this: what was written before a flush that has
returned is there. Of everything else each write may be there, or not, or some
of its sectors; in any order. So an image of a cut at a position of the log is
what the last flush before it secured, plus a choice of the writes since:

  none     nothing that was not flushed
  all      everything, the last write torn
  prefix   in order, up to some write, that one torn
  some     each write with a chance of a half, in any order, a third of them
           torn: only some of the 512-byte sectors
  late     the opposite of order: the newest half only

Cuts are taken in ascending order, so that the secured image only grows.
"""
import os
import shutil
import struct

SECTOR = 512
RECORD = struct.Struct("<4sIQ")


class Write:
    __slots__ = ("offset", "data", "at", "end", "zeros")

    def __init__(self, offset, length, at, end, zeros):
        self.offset, self.zeros = offset, zeros
        self.at, self.end = at, end  # in the log: of the data, and behind it
        self.data = length

    def bytes(self, log):
        if self.zeros:
            return bytes(self.data)
        log.seek(self.at)
        return log.read(self.data)


def read_log(path):
    """Returns the writes, and the positions behind each flush."""
    writes, flushes = [], []
    size, pos = os.stat(path).st_size, 0
    with open(path, "rb") as f:
        while pos + RECORD.size <= size:
            f.seek(pos)
            kind, length, offset = RECORD.unpack(f.read(RECORD.size))
            pos += RECORD.size
            if kind == b"FLSH":
                flushes.append(pos)
                continue
            assert kind in (b"WRIT", b"ZERO"), kind
            end = pos + (length if kind == b"WRIT" else 0)
            writes.append(Write(offset, length, pos, end, kind == b"ZERO"))
            pos = end
    return writes, flushes


class Disk:
    """Makes images of cuts, at ascending positions."""

    def __init__(self, log_path, size, folder):
        self.writes, self.flushes = read_log(log_path)
        self.log = open(log_path, "rb")
        self.end = os.stat(log_path).st_size
        self.secured = folder / "secured.img"
        self.image = folder / "cut.img"
        self.next, self.flush = 0, 0
        with open(self.secured, "wb") as f:
            f.truncate(size)

    def close(self):
        self.log.close()

    def advance(self, position):
        """Brings the secured image to the last flush up to position."""
        while self.flush < len(self.flushes) and \
                self.flushes[self.flush] <= position:
            self.flush += 1
        limit = self.flushes[self.flush - 1] if self.flush else 0
        with open(self.secured, "r+b") as f:
            while self.next < len(self.writes) and \
                    self.writes[self.next].end <= limit:
                w = self.writes[self.next]
                f.seek(w.offset)
                f.write(w.bytes(self.log))
                self.next += 1

    def pending(self, position):
        i = self.next
        while i < len(self.writes) and self.writes[i].end <= position:
            i += 1
        return self.writes[self.next:i]

    def cut(self, position, mode, rng):
        self.advance(position)
        shutil.copyfile(self.secured, self.image)
        writes, torn = choose(self.pending(position), mode, rng)
        with open(self.image, "r+b") as f:
            for w in writes:
                put(f, w.offset, w.bytes(self.log), w in torn, rng)
        return self.image


def choose(pending, mode, rng):
    """The writes that reach the disk, in their order, and the torn ones."""
    if mode == "none" or not pending:
        return [], []
    if mode == "all":
        return pending, pending[-1:]
    if mode == "prefix":
        part = pending[:rng.randrange(1, len(pending) + 1)]
        return part, part[-1:]
    if mode == "late":
        part = pending[len(pending) // 2:]
        return part, []
    part = [w for w in pending if rng.random() < 0.5]
    rng.shuffle(part)
    return part, [w for w in part if rng.random() < 0.33]


def put(f, offset, data, torn, rng):
    if not torn:
        f.seek(offset)
        f.write(data)
        return
    for at in range(0, len(data), SECTOR):
        if rng.random() < 0.5:
            f.seek(offset + at)
            f.write(data[at:at + SECTOR])


MODES = ["none", "some", "some", "late", "prefix", "all"]


def cut_points(disk, acks, count, first, rng):
    """Ascending (position, mode): where something was just acknowledged,
    just before a flush, and anywhere; none before the position first."""
    acks = [p for p in acks if p >= first]
    ends = [w.end for w in disk.writes if w.end >= first]
    before = [p - RECORD.size for p in disk.flushes if p > first]
    points = set()
    for n, source in ((count * 2 // 5, acks), (count * 3 // 10, before)):
        points.update(rng.sample(source, min(n, len(source))))
    while len(points) < min(count, len(ends)):
        points.add(rng.choice(ends))
    return [(p, MODES[i % len(MODES)]) for i, p in enumerate(sorted(points))]
