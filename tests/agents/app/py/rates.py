# SPDX-License-Identifier: MIT
"""What each kind of ware costs to send."""
RATES = {}

# Kind 0.
RATES[0] = 0


# Kind 1.
RATES[1] = 0


# Kind 2.
RATES[2] = 0


# Kind 3.
RATES[3] = 0


# Kind 4.
RATES[4] = 0
