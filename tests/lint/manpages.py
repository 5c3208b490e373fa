#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""manpages.py - the manual says what the command line's tables say.

Checked, both ways: every command has its page cowfs-COMMAND.1, which is
listed in cowfs.1 and installed; every option of a command, letter and value
included, is an item of its page; every key of the JSON output is an item in
the command's section of cowfs-json.5. Every page passes mandoc's lint.
The tables are read from the sources, so nothing needs to be built.
"""
import re
import shutil
import subprocess

from common import ROOT, finish

MAN = ROOT / "docs/man"
CLI = ROOT / "daemon/cli"
OPTION = re.compile(r"""\{"([a-z-]+)",\s*(?:0|'(.)'),\s*OPT_\w+,\s*ARG_\w+,"""
                    r"""\s*(?:NULL|"([^"]*)"),""")
COLUMN = re.compile(r"""\{(?:NULL|"(\w+)"),\s*(?:NULL|"[^"]*"),\s*OUT_\w+""")
VERB = re.compile(r'const struct verb cmd_\w+ = \{\n\t\.name = "(\w+)"')
ITEM = re.compile(r"^\.It (Fl -.*)$", re.M)
KEY = re.compile(r"^\.It Va (\w+)$", re.M)


def tables():
    """For each file with commands: their names, options, keys."""
    for path in sorted(CLI.glob("cmd_*.c")):
        text = path.read_text()
        verbs = VERB.findall(text)
        if verbs:
            yield (path.name, verbs, OPTION.findall(text),
                   {k for k in COLUMN.findall(text) if k})


def item_of(name, letter, value):
    """An option as its page's .It line has it."""
    arg = ""
    if value:
        arg = " Ar " + " : Ns Ar ".join(value.split(":"))
    item = f"Fl -{name}{arg}"
    return item + (f" , Fl {letter}{arg}" if letter else "")


def check_options(page, options):
    text = (MAN / page).read_text()
    want = {item_of(*o) for o in options}
    have = set(ITEM.findall(text))
    for item in sorted(want - have):
        yield f"docs/man/{page}: no \".It {item}\""
    for item in sorted(have - want):
        yield f"docs/man/{page}: \".It {item}\" is no option"


def check_verbs():
    seen = set()
    overview = (MAN / "cowfs.1").read_text()
    installed = (CLI / "CMakeLists.txt").read_text()
    for source, verbs, options, _ in tables():
        for verb in verbs:
            page = f"cowfs-{verb}.1"
            seen.add(page)
            if not (MAN / page).exists():
                yield f"docs/man/{page} is missing"
                continue
            if f".It Xr cowfs-{verb} 1\n" not in overview:
                yield f"docs/man/cowfs.1 does not list cowfs-{verb}(1)"
            if page not in installed:
                yield f"daemon/cli/CMakeLists.txt does not install {page}"
            yield from check_options(page, options)
        if len(verbs) > 1 and options:
            yield f"{source}: several commands and one option table"
    for page in sorted(p.name for p in MAN.glob("cowfs-*.1")):
        if page not in seen:
            yield f"docs/man/{page}: there is no such command"


def check_globals():
    text = (CLI / "opt.c").read_text()
    options = OPTION.findall(text)
    if not options:
        yield "daemon/cli/opt.c: no options were found; mend this lint"
    yield from check_options("cowfs.1", options)


def check_keys():
    page = (MAN / "cowfs-json.5").read_text()
    parts = re.split(r"^\.Ss cowfs (\w+)$", page, flags=re.M)
    sections = {parts[i]: set(KEY.findall(parts[i + 1]))
                for i in range(1, len(parts), 2)}
    known = set()
    for source, verbs, _, keys in tables():
        known.update(verbs)
        told = set().union(*(sections.get(v, set()) for v in verbs))
        for key in sorted(keys - told):
            yield f"cowfs-json.5: no word of {key} ({source})"
        for key in sorted(told - keys):
            yield f"cowfs-json.5: {key} is no key of {source}"
    for verb in sections:
        if verb not in known:
            yield f"cowfs-json.5: there is no command {verb}"


def check_form():
    if not shutil.which("mandoc"):
        yield "mandoc is not installed"
        return
    for path in sorted(MAN.iterdir()):
        r = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path],
                           capture_output=True, text=True, timeout=60,
                           check=False)
        yield from (r.stdout + r.stderr).splitlines()


def main():
    found = [*check_verbs(), *check_globals(), *check_keys(), *check_form()]
    finish("manpages", found)


if __name__ == "__main__":
    main()
