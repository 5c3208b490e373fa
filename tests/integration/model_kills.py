# SPDX-License-Identifier: MIT
"""model_kills.py - the server of the model test dies while steps are made.

The steps that were answered have happened, here as in the plain folder. The
first one that was not may have happened or not: one of both must make the
trees equal. A step that makes several system calls (MANY) may also have
stopped between two of them: then nothing may differ but what it touches, and
the plain folder is made anew from ours.
"""
import os
import shutil
import signal
import time

import mountpoint
from helpers import wait_until

DEAD = ("ENOTCONN", "ECONNABORTED")
MANY = ("create", "rewrite", "tmpfile", "map_write", "copy_range", "rmtree",
        "churn")


def is_dead(answer):
    return answer[0] in DEAD


def kill_now(store, pid, rng):
    time.sleep(rng.random() * 0.1)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not mountpoint.processes_of(store.path), 10,
               "keeper and server have ended")


def kill_in_batch(model, batch):
    ours, theirs = model.workers
    pid = model.store.server_pid()
    ours.ask(batch)
    kill_now(model.store, pid, model.rng)
    answers = ours.answer()
    model.deaths += 1
    answered = next((i for i, a in enumerate(answers) if is_dead(a)),
                    len(batch))
    theirs.ask(batch[:answered])
    for step, a, b in zip(batch, answers, theirs.answer()):
        # Looked at when it was too late: the whole tree will tell.
        late = any(row in DEAD for row in a[1])
        model.compare(step, a, (b[0], a[1]) if late else b)
    come_back(model)
    if answered < len(batch):
        resolve(model, batch[answered])
    forget_open_files(model)


def come_back(model):
    assert model.store.mount("e") == model.point
    model.restart_worker(0)


IDENTITY = 7  # in a row of oracle.py: counted over the whole tree


def differ(model):
    """Our tree, and how the trees differ."""
    model.both([(0, [], "forget", ())])
    return model.differ()


def far_from(touched, tree, paths):
    """Those that are not touched, below what is, or other names of that."""
    folders = {os.path.dirname(t) for t in touched}

    def is_near(path):
        return path in folders or any(
            path == t or path.startswith(t + "/") for t in touched)

    files = {row[IDENTITY] for path, row in tree.items() if is_near(path)}
    return [p for p in paths if not is_near(p) and
            not (p in tree and tree[p][IDENTITY] in files)]


def without_identity(row):
    return row and row[:IDENTITY] + row[IDENTITY + 1:]


def resolve(model, step):
    """The step was under way."""
    if not differ(model)[1]:
        return
    model.workers[1].ask([step])
    model.workers[1].answer()
    tree, rows = differ(model)
    if not rows:
        return
    _, touched, name, _ = step
    paths = [path for path, a, b in rows
             if without_identity(a) != without_identity(b)]
    far = far_from(touched, tree, paths)
    assert name in MANY and not far, model.say(
        "lost or half done", f"{step}: " + "\n".join(
            f"{p}: {a} {b}" for p, a, b in rows if p in far[:5]))
    copy_anew(model)


def copy_anew(model):
    model.workers[1].close()
    shutil.rmtree(model.plain)
    model.plain.mkdir()
    model.store.inside(model.point, ["cp", "-a", "--sparse=always", ".",
                                     model.plain], limit=300)
    model.workers[1] = type(model.workers[0])(model.store, model.plain)


def forget_open_files(model):
    """They went with the server; their orphans, too."""
    model.restart_worker(1)
    model.restart_worker(0)
    model.full()
