//! Which addresses belong to the open internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to the open internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let special = matches!(
        (first, second, third),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (192, 0, 0 | 2)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let words = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match words {
        // Unspecified, loopback, and IPv4 in its old and its mapped form; NAT64 and 6to4 lead to the IPv4
        // address inside.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, ..] | [0x100, 0, 0, 0, ..] | [0x2001, 0..=0x1ff | 0xdb8, ..] => false,
        // Only this block is given out to the internet.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("127.0.0.1", false)]
    #[case("::1", false)]
    #[case("::ffff:10.0.0.1", false)]
    #[case("64:ff9b::a00:1", false)]
    #[case("fe80::1", false)]
    #[case("fd00::1", false)]
    #[case("169.254.169.254", false)]
    #[case("100.64.0.1", false)]
    #[case("0.0.0.0", false)]
    #[case("93.184.216.34", true)]
    #[case("2606:2800:220:1::1", true)]
    fn only_the_open_internet_is_public(#[case] address: &str, #[case] want: bool) {
        assert_eq!(is_public(address.parse().unwrap()), want);
    }
}
