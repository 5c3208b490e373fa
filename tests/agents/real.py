# SPDX-License-Identifier: MIT
"""real.py - a git repository with a real node_modules of 25,000 or 60,000
files, made once for each list of packages and kept where project.py keeps its
own."""
import hashlib
import json
import os
import shutil
import subprocess

import project

SOME = {
    "typescript": "5.4.5", "eslint": "8.57.0", "jest": "29.7.0",
    "webpack": "5.91.0", "webpack-cli": "5.1.4", "next": "14.2.3",
    "react": "18.3.1", "react-dom": "18.3.1", "lodash": "4.17.21",
    "date-fns": "3.6.0", "core-js": "3.37.1",
}
ALL = {**SOME, "@mui/icons-material": "5.15.18"}
MADE = 1  # counts changes of how it is made
TEST = """
const { add } = require('../src/add');
test('adds', () => { expect(add(1, 2)).toBe(3); });
"""
# As the lock file was made: peers that disagree, nothing that builds.
INSTALL = ("--legacy-peer-deps", "--ignore-scripts")


def npm_cache():
    """With what was fetched once."""
    return project.cache_folder() / "npm"


def npm(folder, *args):
    project.run("npm", *args, cwd=folder, NEXT_TELEMETRY_DISABLED="1",
                **dict(project.NPM, npm_config_cache=str(npm_cache())))


def make_project(top, packages):
    (top / "src").mkdir(parents=True)
    (top / "test").mkdir()
    (top / "package.json").write_text(json.dumps({
        "name": "real", "version": "1.0.0", "private": True,
        "scripts": {"test": "jest"}, "dependencies": packages}, indent=2))
    (top / "src/add.js").write_text(
        "exports.add = (a, b) => a + b;\n")
    (top / "src/index.ts").write_text("export const x: number = 1;\n")
    (top / "test/add.test.js").write_text(TEST)
    (top / ".gitignore").write_text("node_modules\n")
    npm(top, "install", *INSTALL)
    for args in (["init", "-q", "-b", "main"], ["add", "-A"],
                 ["commit", "-q", "-m", "a real project"]):
        project.run("git", *args, cwd=top, **project.GIT)


def make(packages):
    """Returns where it is."""
    key = hashlib.sha256(json.dumps([packages, TEST, MADE]).encode()).hexdigest()
    top = project.cache_folder() / f"project-{key[:12]}"
    if (top / ".git/HEAD").exists():
        return top
    making = top.parent / f"making-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    try:
        make_project(making, packages)
        shutil.rmtree(top, ignore_errors=True)
        making.rename(top)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return top
