// SPDX-License-Identifier: MIT
fn main() {
    let mut text = itoa::Buffer::new();
    for rate in shop::rates() {
        println!("{}", text.format(rate));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_has_a_rate() {
        assert_eq!(shop::rates().len(), 5);
    }
}
