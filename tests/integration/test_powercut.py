# SPDX-License-Identifier: MIT
"""Power cuts: what was fsynced is there, and nothing is what nobody wrote.

A workload is recorded once on a disk that logs writes and flushes; then the
log is cut at many points, with what was not flushed dropped, reordered and
torn, and each time the image is mounted as after a reboot. docs/testing.md
tells the whole. COWFS_POWERCUT_SEED sets the seed, COWFS_POWERCUT_POINTS the
number of cuts.
"""
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile

import pytest
from helpers import HERE

sys.path.insert(0, str(HERE.parent / "powercut"))
from replay import Disk, cut_points  # noqa: E402
from rig import Cut, Rig, Truth, losing  # noqa: E402

POINTS = int(os.environ.get("COWFS_POWERCUT_POINTS", 0))


@pytest.fixture
def memory():
    """A folder for images, in memory where there is any."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cowfs-t-", dir=where))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def rng():
    seed = int(os.environ.get("COWFS_POWERCUT_SEED", 0)) or \
        struct.unpack("<I", os.urandom(4))[0]
    print(f"COWFS_POWERCUT_SEED={seed}")
    return random.Random(seed)


def losses(store, folder, rng, points, seconds, fs="ext4", enough=10**9):
    """Records and cuts; returns what was wrong, one line a cut."""
    with Rig(store, folder, fs) as rig:
        record = rig.run(rng.randrange(10**6), seconds)
    cut = Cut(store, folder, Truth(record), fs)
    disk = Disk(record.clock, rig.size, folder)
    wrong, made = [], cut_points(disk, record.acks(), points, record.first,
                                 rng)
    for position, mode in made:
        found = cut.judge(disk.cut(position, mode, rng), position)
        if found:
            wrong.append(f"cut at {position} ({mode}): {' | '.join(found)}")
            print(wrong[-1], flush=True)
        if len(wrong) >= enough:
            break
    disk.close()
    print(f"{len(made)} cuts of {len(disk.writes)} writes, "
          f"{len(disk.flushes)} flushes; {len(wrong)} with losses")
    return wrong


def test_what_was_fsynced_survives(cowfs, as_root, memory, rng):
    wrong = losses(cowfs, memory, rng, POINTS or 15, 4)
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.long
@pytest.mark.parametrize("fs", ["ext4", "xfs", "btrfs"])
def test_what_was_fsynced_survives_everywhere(cowfs, as_root, memory, rng,
                                              fs):
    wrong = losses(cowfs, memory, rng, POINTS or 240, 15, fs)
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("kind", ["data", "journal", "index", "segments"])
def test_a_sync_that_is_left_out_is_found(cowfs, as_root, memory, rng, kind):
    """The suite can fail: each kind of sync is missed by it."""
    losing(cowfs, kind)
    wrong = losses(cowfs, memory, rng, POINTS or 60, 3, enough=1)
    assert wrong, f"nobody missed the syncs of {kind}"
