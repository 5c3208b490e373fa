# SPDX-License-Identifier: MIT
"""What all measurements do at their end, and around what they measure."""
import json
import os
import platform
import time


def took(fn):
    """Milliseconds."""
    start = time.perf_counter()
    fn()
    return (time.perf_counter() - start) * 1000


def write(folder, name, text, **figures):
    """Prints the text; writes it to NAME.md, and the figures with the machine's
    kernel and processors to NAME.json."""
    print(text, end="")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text)
    (folder / f"{name}.json").write_text(json.dumps(
        {"v": 1, "kernel": platform.release(), "cpus": os.cpu_count(),
         **figures}, indent=1))
