//! Bytes as hexadecimal digits.

pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)])
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_halves_of_a_byte_are_shown() {
        assert_eq!(super::encode(&[0x00, 0x0f, 0xa5]), "000fa5");
    }
}
