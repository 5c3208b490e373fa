# SPDX-License-Identifier: MIT
import json
import pathlib

from rates import RATES

EXPECT = json.loads(
    (pathlib.Path(__file__).parent.parent / "expect.json").read_text())


def test_rates():
    assert list(RATES.values()) == EXPECT["rates"]
