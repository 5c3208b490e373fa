# SPDX-License-Identifier: MIT
"""What the server itself makes sure of, asked by the protocol: nothing is
destroyed but in the state that a rescue is of, and a private view ends with
whoever asked for it.
"""
import os
import socket
import struct

from helpers import wait_until
from test_rescue import envs, rescues

UMOUNT, STOP, VIEW, FREEZE, ROW, DONE = 3, 7, 9, 10, 64, 65
CODE, LINE, NAME, PATH, SNAPSHOT, COUNT = 1, 2, 3, 4, 6, 13
GIT_DIR, RESCUE, LEFT = 37, 40, 41


def text(value):
    return value.encode()


class Door:
    """A connection to the server."""

    def __init__(self, store):
        store.run("daemon", "status", expect=None)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(store.path / "ctl.sock"))

    def send(self, verb, *fields):
        body = struct.pack("<BBH", 1, verb, 0)
        for tag, value in fields:
            body += struct.pack("<HHI", tag, 0, len(value)) + value
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def take(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    def receive(self):
        """The verb, and the fields: {tag: [values]}."""
        body = self.take(struct.unpack("<I", self.take(4))[0])
        fields, at = {}, 4
        while at < len(body):
            tag, _, n = struct.unpack_from("<HHI", body, at)
            fields.setdefault(tag, []).append(body[at + 8:at + 8 + n])
            at += 8 + n
        return body[1], fields

    def ask(self, verb, *fields):
        """The code, the fields of DONE, those of each row."""
        self.send(verb, *fields)
        rows = []
        while (got := self.receive())[0] == ROW:
            rows.append(got[1])
        assert got[0] == DONE
        return struct.unpack("<Q", got[1][CODE][0])[0], got[1], rows


def kept(store, tree, name="e"):
    if not (store.path / "segments").exists():
        store.load(tree)
    store.sh(store.mount("base", name), "echo x > new")
    store.run("umount", name, "--keep")


def freeze(door, name="e"):
    code, answer, rows = door.ask(FREEZE, (NAME, text(name)),
                                  (COUNT, struct.pack("<Q", 1)))
    assert code == 0, answer
    assert [row[GIT_DIR] for row in rows] == [[b""]]
    assert len(rows[0][SNAPSHOT][0]) == 48
    return answer[RESCUE][0]


def test_a_state_that_was_not_rescued_is_not_destroyed(cowfs, tree):
    kept(cowfs, tree)
    door = Door(cowfs)
    rescue = freeze(door)
    cowfs.sh(cowfs.mount("e"), "echo y > other")
    cowfs.run("umount", "e", "--keep")
    code, answer, _ = door.ask(UMOUNT, (NAME, b"e"), (RESCUE, rescue))
    assert code == 4 and b"changed since" in answer[LINE][0], answer
    assert envs(cowfs) == ["e"]
    second = freeze(door)
    assert second != rescue
    code, answer, _ = door.ask(UMOUNT, (NAME, b"e"), (RESCUE, second))
    assert code == 0 and not envs(cowfs)
    assert len(rescues(cowfs)) == 2


def test_a_rescue_of_another_environment_is_none_of_this(cowfs, tree):
    kept(cowfs, tree)
    kept(cowfs, tree, "f")
    door = Door(cowfs)
    code, answer, _ = door.ask(UMOUNT, (NAME, b"f"), (RESCUE, freeze(door)))
    assert code == 4, answer
    for name in (b"nosuch", b"../../x", b""):
        code, answer, _ = door.ask(UMOUNT, (NAME, b"f"), (RESCUE, name))
        assert code in (2, 3), answer
    assert sorted(envs(cowfs)) == ["e", "f"]


def test_one_that_is_mounted_is_not_destroyed(cowfs, tree):
    kept(cowfs, tree)
    door = Door(cowfs)
    rescue = freeze(door)
    cowfs.mount("e")
    for verb, more in ((UMOUNT, [(RESCUE, rescue)]), (FREEZE, []), (VIEW, [])):
        code, answer, _ = door.ask(verb, (NAME, b"e"), *more)
        assert code == 4 and b"busy" in answer[LINE][0], answer
    assert cowfs.sh(str(cowfs.path / "mnt/e"), "cat new").out == "x\n"


def test_a_list_that_makes_no_sense_is_refused(cowfs, tree):
    kept(cowfs, tree)
    for left in (b"\x01", b"\x09" + bytes(16) + struct.pack("<I", 1) + b"a",
                 b"\x01" + bytes(16) + struct.pack("<I", 3) + b"///"):
        door = Door(cowfs)
        door.send(FREEZE, (NAME, b"e"), (LEFT, left))
        assert not door.socket.recv(1)
    assert envs(cowfs) == ["e"] and not rescues(cowfs)


def views(store):
    return [n for n in os.listdir(store.path / "mnt") if n != "e"]


def test_a_view_is_read_only_and_ends_with_the_connection(cowfs, tree):
    kept(cowfs, tree)
    door = Door(cowfs)
    door.send(VIEW, (NAME, b"e"))
    kind, row = door.receive()
    assert kind == ROW
    path = row[PATH][0].decode()
    seen = cowfs.sh(path, "cat new; echo y 2>/dev/null > y || echo refused")
    assert seen.out == "x\nrefused\n"
    assert cowfs.run("--json", "ps").json()[0]["state"] == "kept"
    # nobody changes it, and the server stays
    assert cowfs.run("mount", "e", expect=4).err
    cowfs.run("daemon", "stop", expect=4)
    door.socket.shutdown(socket.SHUT_WR)
    assert door.receive()[0] == DONE
    assert not views(cowfs)
    cowfs.mount("e")


def test_a_view_of_a_snapshot_and_a_client_that_dies(cowfs, tree):
    cowfs.load(tree)
    cowfs.run("daemon", "start")
    door = Door(cowfs)
    door.send(VIEW, (SNAPSHOT, b"base"))
    path = door.receive()[1][PATH][0].decode()
    assert cowfs.sh(path, "cat a.txt").out == "alpha\n"
    door.socket.close()
    wait_until(lambda: not views(cowfs), 10, "the view is gone")
    code, answer, _ = Door(cowfs).ask(VIEW, (SNAPSHOT, b"nosuch"))
    assert code == 3, answer
    wait_until(lambda: cowfs.run("daemon", "stop", expect=None).code == 0, 10,
               "the server has ended")
