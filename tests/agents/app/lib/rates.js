// SPDX-License-Identifier: MIT
// What each kind of ware costs to send.
const rates = [];

// Kind 0.
rates[0] = 0;

// Kind 1.
rates[1] = 0;

// Kind 2.
rates[2] = 0;

// Kind 3.
rates[3] = 0;

// Kind 4.
rates[4] = 0;

module.exports = rates;
