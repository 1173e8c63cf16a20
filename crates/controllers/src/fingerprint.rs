//! Short names for long facts, the same on every machine and in every build (which `std`'s hashers are not).

/// FNV-1a, 64 bits, over `parts` and the seams between them.
pub(crate) fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// `length` letters and digits that stand for `parts`. The alphabet is Kubernetes' own for generated names: no
/// vowels, so that no words come out.
pub(crate) fn suffix(parts: &[&str], length: usize) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = fingerprint(parts);
    let mut letter = || {
        let place = usize::try_from(rest % 27).unwrap_or(0);
        rest /= 27;
        char::from(ALPHABET[place])
    };
    (0..length).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seams_between_parts_count() {
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_eq!(fingerprint(&["ab", "c"]), fingerprint(&["ab", "c"]));
    }

    #[test]
    fn suffixes_are_short_and_differ() {
        let suffixes: std::collections::HashSet<_> = (0..100)
            .map(|index| suffix(&["uid", &index.to_string()], 5))
            .collect();
        assert_eq!(suffixes.len(), 100);
        assert!(suffixes.iter().all(|suffix| suffix.len() == 5));
    }
}
