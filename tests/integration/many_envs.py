# SPDX-License-Identifier: MIT
"""many_envs.py - one store and one base for all cases of a file, and an
environment for each. The file's base_tree makes the base."""
import itertools

import mountpoint
import pytest

counter = itertools.count()


@pytest.fixture(scope="module")
def shared(request):
    store = mountpoint.Store()
    tree = store.folder / "tree"
    request.module.base_tree(tree)
    store.load(tree)
    yield store
    wrong = store.close()
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def env(shared):
    name = f"e{next(counter)}"
    point = shared.mount("base", name)
    yield name, point
    shared.run("umount", name, "--discard")
