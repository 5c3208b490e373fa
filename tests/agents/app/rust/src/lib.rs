// SPDX-License-Identifier: MIT
//! What each kind of ware costs to send.

pub fn rates() -> Vec<u32> {
    let mut all = Vec::new();

    // Kind 0.
    all.push(0);


    // Kind 1.
    all.push(0);


    // Kind 2.
    all.push(0);


    // Kind 3.
    all.push(0);


    // Kind 4.
    all.push(0);

    all
}
