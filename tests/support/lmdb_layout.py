# SPDX-License-Identifier: MIT
"""What of an LMDB file nobody reads: a second opinion on fs/store/pages.c.

unused(bytes) gives a list of (from, to, why) in byte offsets. Why each may
hold anything:

  meta tail      behind the 136 bytes of a meta page LMDB reads nothing
  page head      mp_pad of every page; of meta pages also lower and upper
  older meta     roots and last page of the one that is not chosen: the newer
                 one has the greater transaction number, which is checked
  free page      in the free list, or behind the last page
  gap            between the pointers and the nodes of a page
  padding        nodes begin at even offsets
  value's tail   behind a value on pages of its own
  list's tail    behind the count of a list of free pages
  first key      the first separator of a branch is never compared

Two things are read and may change without harm, as long as the order of keys
stands, which fsck checks: a separator in a branch (every row is still found)
and the number of a list of free pages (compared with readers that live only).
"""
import struct

HEAD, META = 16, 136


class Layout:
    def __init__(self, data):
        self.data, self.found = data, []
        self.psize = struct.unpack_from("<I", data, HEAD + 24)[0]
        self.used = {0, 1}
        metas = [self.meta(i) for i in (0, 1)]
        new = max(metas, key=lambda m: m["txn"])
        old = metas[1 - metas.index(new)]
        base = old["at"]
        self.note(base + 28, base + 128, "older meta")
        self.last = new["last"]
        self.free = []
        self.tree(new["at"] + 24, self.free_row, "free")
        self.tree(new["at"] + 72, self.main_row, "main")
        for page in self.free:
            self.note(page * self.psize, (page + 1) * self.psize, "free page")
        self.note((self.last + 1) * self.psize, len(data), "free page")

    def note(self, start, end, why):
        if end > start:
            self.found.append((start, min(end, len(self.data)), why))

    def meta(self, i):
        at = i * self.psize + HEAD
        self.note(at - HEAD + 8, at - HEAD + 10, "page head")
        self.note(at - HEAD + 12, at, "page head")
        self.note(at + META, (i + 1) * self.psize, "meta tail")
        last, txn = struct.unpack_from("<QQ", self.data, at + 120)
        return {"at": at, "last": last, "txn": txn}

    def tree(self, record, row, name):
        depth = struct.unpack_from("<H", self.data, record + 6)[0]
        root = struct.unpack_from("<Q", self.data, record + 40)[0]
        if depth:
            self.page(root, depth, row, name)

    def page(self, number, depth, row, name):
        at = number * self.psize
        lower, upper = struct.unpack_from("<HH", self.data, at + 12)
        self.note(at + 8, at + 10, "page head")
        self.note(at + lower, at + upper, "gap")
        for i in range((lower - HEAD) // 2):
            node = at + struct.unpack_from("<H", self.data,
                                           at + HEAD + 2 * i)[0]
            size, flags, klen = struct.unpack_from("<IHH", self.data, node)
            key = node + 8
            if depth > 1:
                self.note(key, key + klen, "first key" if i == 0
                          else "separator")
                self.note(key + klen, key + klen + klen % 2, "padding")
                self.page(size | flags << 32, depth - 1, row, name)
                continue
            if name == "free":
                self.note(key, key + klen, "list's number")
            value, end = key + klen, key + klen + size
            if flags & 1:
                end = value + 8
                value = self.long_value(value, size)
            self.note(end, end + (end - node) % 2, "padding")
            row(value, size)

    def long_value(self, at, size):
        page = struct.unpack_from("<Q", self.data, at)[0] * self.psize
        pages = (HEAD - 1 + size) // self.psize + 1
        self.note(page + 8, page + 10, "page head")
        self.note(page + HEAD + size, page + pages * self.psize,
                  "value's tail")
        return page + HEAD

    def free_row(self, value, size):
        count = struct.unpack_from("<Q", self.data, value)[0]
        self.free += struct.unpack_from(f"<{count}Q", self.data, value + 8)
        self.note(value + 8 + 8 * count, value + size, "list's tail")

    def main_row(self, value, size):
        self.tree(value, lambda v, n: None, "table")


def unused(data):
    return sorted(Layout(data).found)


def why_unused(regions, offset):
    """Returns the reason, or None."""
    for start, end, why in regions:
        if start <= offset < end:
            return why
    return None
