# SPDX-License-Identifier: MIT
"""disks.py - a file system of a kind, in a file.

Mounted in the name space of the run, the loop device is freed by the kernel
with the mount: nothing is left even when the run is killed.
"""
import os
import subprocess

OPTIONS = {"xfs": ["-q", "-m", "reflink=1"], "btrfs": ["-q"],
           "ext4": ["-q", "-F", "-m", "0", "-E",
                    "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]}


class Disk:
    """Sparse, or with all its blocks reserved: then it is full when it says
    so, not when the disk below is."""

    def __init__(self, kind, image, point, room, reserve=False):
        self.kind, self.image, self.point = kind, image, point
        with open(image, "wb") as f:
            if reserve:
                os.posix_fallocate(f.fileno(), 0, room)
            else:
                f.truncate(max(room, 1 << 30))
        subprocess.run([f"mkfs.{kind}", *OPTIONS[kind], image], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        self.mount()

    @staticmethod
    def lacks(kind):
        """Whether the kernel has it; a module is loaded by the first mount,
        so only what is neither there nor loadable is missing."""
        with open("/proc/filesystems") as f:
            if kind in f.read().split():
                return None
        done = subprocess.run(["modprobe", "-q", kind],
                              stderr=subprocess.DEVNULL) \
            if os.path.exists("/sbin/modprobe") else None
        return None if done and done.returncode == 0 else \
            f"the kernel has no {kind}"

    def mount(self):
        self.point.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-o", "loop", self.image, self.point],
                       check=True, timeout=60)

    def used(self):
        subprocess.run(["sync", "-f", self.point], check=True, timeout=600)
        st = os.statvfs(self.point)
        return (st.f_blocks - st.f_bfree) * st.f_frsize

    def close(self):
        self.image.unlink(missing_ok=True)
