# SPDX-License-Identifier: MIT
"""durable.py - works that show what it costs that nothing is lost: fsyncs, and
changes of names and attributes, which a journal records one by one. With
--journal-off the contender "cowfs without journal" shows the difference."""
from macro.child import values
from macro.works import work

HEAD = """
import os, time
clock = time.perf_counter
def syncs(n, at):
    fd = os.open('f', os.O_RDWR | os.O_CREAT)
    took = []
    for i in range(n):
        block = os.urandom(4096)
        t = clock(); os.pwrite(fd, block, at(i)); os.fsync(fd)
        took.append(clock() - t)
        assert os.pread(fd, 4096, at(i)) == block
    os.close(fd); os.unlink('f')
    return sorted(took)[n // 2]
def names(wanted, n=20000):
    os.mkdir('n')
    def create():
        for i in range(n): os.close(os.open(f'n/{i}', os.O_CREAT | os.O_WRONLY))
        assert len(os.listdir('n')) == n
    def chmod():
        for i in range(n): os.chmod(f'n/{i}', 0o600)
        assert os.stat('n/77').st_mode & 0o777 == 0o600
    def rename():
        for i in range(n): os.rename(f'n/{i}', f'n/r{i}')
        assert os.path.exists('n/r77') and not os.path.exists('n/77')
    def unlink():
        for i in range(n): os.unlink(f'n/r{i}')
        assert os.listdir('n') == []
    for f in (create, chmod, rename, unlink):
        t = clock(); f(); took = clock() - t
        if f.__name__ == wanted: found = took
    os.rmdir('n')
    return found
def latency(busy):
    child = os.fork()
    if child == 0:
        fd = os.open('other', os.O_RDWR | os.O_CREAT)
        for i in range(100):
            if busy:
                os.pwrite(fd, os.urandom(4096), i * 4096); os.fsync(fd)
            else:
                time.sleep(.004)
        os._exit(0)
    took, i = [], 0
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        i += 1  # the kernel knows nothing of this name: a message
        t = clock()
        try: os.stat(f'no-{os.getpid()}-{i}')
        except FileNotFoundError: pass
        took.append(clock() - t)
    os.unlink('other')
    return sorted(took)[len(took) * 99 // 100]
"""


def python(place, expression):
    return values('cd "$AT"; python3 -c "$SOURCE"', dict(
        place.env, SOURCE=f"{HEAD}print('VALUE %.9f' % {expression})"),
        place.limit)[0]


SMALL = ("small",)


@work("4 KiB append and fsync", sizes=SMALL)
def append(place):
    return python(place, "syncs(200, lambda i: i * 4096)")


@work("4 KiB overwrite and fsync", sizes=SMALL, quick=False)
def overwrite(place):
    return python(place, "syncs(200, lambda i: i * 7 % 200 * 4096)")


def register(name):
    @work(f"{name} of 20,000 files", sizes=SMALL, quick=False)
    def one(place):
        return python(place, f"names('{name}')")


for change in ("create", "chmod", "rename", "unlink"):
    register(change)


@work("stat beside a sleeper, 99th percentile", sizes=SMALL, quick=False)
def idle(place):
    """What of the next is the machine."""
    return python(place, "latency(False)")


@work("stat beside fsyncs, 99th percentile", sizes=SMALL, quick=False)
def busy(place):
    return python(place, "latency(True)")
