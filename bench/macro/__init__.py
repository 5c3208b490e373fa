# SPDX-License-Identifier: MIT
"""The parts of bench/run and bench/compare; bench/README.md is their guide."""
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(BENCH.parent / "tests" / d) for d in ("support", "agents")]
