//! `ip('10.0.0.1')`, `cidr('10.0.0.0/8')` and their functions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::common::functions::Function;
use cel::common::types::{STRING_TYPE, Type};
use cel::{DeclarationError, Env, ExecutionError, Value};

use super::opaque::{Answer, Args, Custom, answer, custom, failed, members, own, string, truth};

static ADDRESS: Type = Type::new_unspecified_type("net.IP");
static RANGE: Type = Type::new_unspecified_type("net.CIDR");

#[derive(Clone, Copy, Debug, PartialEq)]
struct Address(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    address: IpAddr,
    length: u32,
}

impl Custom for Address {
    fn cel_type() -> &'static Type {
        &ADDRESS
    }
}

impl Custom for Range {
    fn cel_type() -> &'static Type {
        &RANGE
    }
}

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let texts: [(&str, &str, Function); 5] = [
        ("ip", "string_to_ip", |args| {
            custom(Address(address_of(&args, 0, "ip")?))
        }),
        ("isIP", "is_ip", |args| {
            truth(address(&string(&args, 0)?).is_some())
        }),
        ("ip.isCanonical", "ip_is_canonical", |args| {
            let found = address_of(&args, 0, "ip.isCanonical")?;
            truth(found.to_string() == *string(&args, 0)?)
        }),
        ("cidr", "string_to_cidr", |args| {
            custom(range_of(&args, 0, "cidr")?)
        }),
        ("isCIDR", "is_cidr", |args| {
            truth(range(&string(&args, 0)?).is_some())
        }),
    ];
    for (name, id, function) in texts {
        env.add_overload(name, id, vec![STRING_TYPE], function)?;
    }
    env.add_overload("string", "ip_to_string", vec![ADDRESS.to_owned()], |args| {
        answer(own::<Address>(&args, 0)?.0.to_string())
    })?;
    env.add_overload("string", "cidr_to_string", vec![RANGE.to_owned()], |args| {
        let range = own::<Range>(&args, 0)?;
        answer(format!("{}/{}", range.address, range.length))
    })?;
    members(
        env,
        &ADDRESS,
        "ip",
        [
            ("family", |args| {
                let is_four = own::<Address>(&args, 0)?.0.is_ipv4();
                answer(Value::Int(if is_four { 4 } else { 6 }))
            }),
            ("isUnspecified", |args| is(&args, IpAddr::is_unspecified)),
            ("isLoopback", |args| is(&args, IpAddr::is_loopback)),
            ("isLinkLocalMulticast", |args| is(&args, is_local_multicast)),
            ("isLinkLocalUnicast", |args| is(&args, is_local_unicast)),
            ("isGlobalUnicast", |args| is(&args, is_global_unicast)),
        ],
    )?;
    members(
        env,
        &RANGE,
        "cidr",
        [
            ("ip", |args| {
                custom(Address(own::<Range>(&args, 0)?.address))
            }),
            ("masked", |args| {
                let range = *own::<Range>(&args, 0)?;
                let address = range.start(range.address);
                custom(Range { address, ..range })
            }),
            ("prefixLength", |args| {
                answer(Value::Int(i64::from(own::<Range>(&args, 0)?.length)))
            }),
        ],
    )?;
    let pairs: [(&str, &Type, Function); 2] = [
        ("containsIP", &ADDRESS, |args| {
            truth(own::<Range>(&args, 0)?.contains(address_of(&args, 1, "containsIP")?))
        }),
        ("containsCIDR", &RANGE, |args| {
            let (outer, inner) = (
                *own::<Range>(&args, 0)?,
                range_of(&args, 1, "containsCIDR")?,
            );
            truth(inner.length >= outer.length && outer.contains(inner.address))
        }),
    ];
    for (name, own, function) in pairs {
        for (index, argument) in [STRING_TYPE, own.to_owned()].into_iter().enumerate() {
            let id = format!("cidr_{name}_{index}");
            env.add_member_overload(name, &id, RANGE.to_owned(), vec![argument], function)?;
        }
    }
    Ok(())
}

/// An argument that is an address, or the text of one.
fn address_of(args: &Args<'_, '_>, at: usize, name: &str) -> Result<IpAddr, ExecutionError> {
    match own::<Address>(args, at) {
        Ok(address) => Ok(address.0),
        Err(_) => address(&string(args, at)?).ok_or_else(|| failed(name, "not an IP address")),
    }
}

/// An argument that is a range, or the text of one.
fn range_of(args: &Args<'_, '_>, at: usize, name: &str) -> Result<Range, ExecutionError> {
    match own::<Range>(args, at) {
        Ok(range) => Ok(*range),
        Err(_) => range(&string(args, at)?).ok_or_else(|| failed(name, "not a range of addresses")),
    }
}

/// An address without zone; one of IPv4 in the clothes of IPv6 is none.
fn address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}

fn range(text: &str) -> Option<Range> {
    let (start, length) = text.split_once('/')?;
    let address = address(start)?;
    let is_canonical = length == "0" || !length.starts_with(['0', '+']);
    let length: u32 = length.parse().ok().filter(|_| is_canonical)?;
    (length <= bits(address)).then_some(Range { address, length })
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Range {
    /// An address with all but the first bits cleared.
    fn start(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(four) => {
                let mask = u32::MAX.checked_shl(32 - self.length).unwrap_or(0);
                Ipv4Addr::from_bits(four.to_bits() & mask).into()
            }
            IpAddr::V6(six) => {
                let mask = u128::MAX.checked_shl(128 - self.length).unwrap_or(0);
                Ipv6Addr::from_bits(six.to_bits() & mask).into()
            }
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && self.start(address) == self.start(self.address)
    }
}

fn is<'b, 'v>(args: &Args<'_, '_>, test: impl Fn(&IpAddr) -> bool) -> Answer<'b, 'v> {
    truth(test(&own::<Address>(args, 0)?.0))
}

fn is_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => matches!(four.octets(), [224, 0, 0, _]),
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_local_unicast(address)
        && !is_broadcast
}
