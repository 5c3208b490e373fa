#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rules.py - every numbered rule of docs/format.md has a check in the code and
a test that breaks it, as rules.tsv says.

A rule that fsck tells by its own name must stand as "S1" in fs/, and each test
of it must be there and, where it breaks the rule, name it.
"""
import re

from common import ROOT, finish, tracked

RULE = re.compile(r"\*\*([SOE]\d+)\*\*")


def text_of(top):
    names = [n for n in tracked() if n.startswith(top) and
             n.endswith((".c", ".py"))]
    return "\n".join((ROOT / n).read_text() for n in names)


def bodies_of(tests):
    """Each test by name, with what stands above it since the last one: a
    Python test's rules may be in its decorator."""
    found, since = {}, []
    name = None
    for line in tests.split("\n"):
        head = re.match(r"TEST\((\w+)\)|def (test_\w+)\(", line)
        if head:
            name = head[1] or head[2]
            found[name] = "\n".join(since)
            since = []
        elif line[:1] in ("@", "}", "]", "#") or line.startswith("def "):
            name = None
        if name:
            found[name] += line + "\n"
        else:
            since.append(line)
    return found


def table():
    rows = {}
    for line in (ROOT / "tests/lint/rules.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            rule, told, names = line.split("\t")
            rows[rule] = (told, names.split())
    return rows


def main():
    rules = RULE.findall((ROOT / "docs/format.md").read_text())
    code, tests = text_of("fs/"), text_of("tests/")
    rows, tests, faults = table(), bodies_of(tests), []
    for rule in sorted(set(rules)):
        if rules.count(rule) > 1:
            faults.append(f"docs/format.md: {rule} is there twice")
        if rule not in rows:
            faults.append(f"docs/format.md: {rule} has no line in rules.tsv")
    for rule, (told, names) in rows.items():
        if rule not in rules:
            faults.append(f"rules.tsv: {rule} is not in docs/format.md")
        if told != "-" and f'"{told}"' not in code:
            faults.append(f"rules.tsv: {rule}: fs/ never tells {told}")
        bodies = {name: tests.get(name) for name in names}
        faults += [f"rules.tsv: {rule}: there is no test {name}"
                   for name, body in bodies.items() if not body]
        if told in rows and told == rule and not any(
                body and re.search(rf"\b{rule}\b", body)
                for body in bodies.values()):
            faults.append(f"rules.tsv: {rule}: its tests do not name it")
    finish("rules", faults)


main()
