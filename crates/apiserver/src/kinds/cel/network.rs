//! `ip('10.0.0.1')`, `cidr('10.0.0.0/8')` and their functions.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands arguments over by value"
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::common::functions::Function;
use cel::common::types::{STRING_TYPE, Type};
use cel::{DeclarationError, Env, ExecutionError, Value};

use super::opaque::{Answer, Args, Custom, answer, custom, failed, own, string};

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
    let text = || vec![STRING_TYPE];
    for (name, id, function) in [
        ("ip", "string_to_ip", to_ip as Function),
        ("isIP", "is_ip", is_ip),
        ("ip.isCanonical", "ip_is_canonical", is_canonical),
        ("cidr", "string_to_cidr", to_cidr),
        ("isCIDR", "is_cidr", is_cidr),
    ] {
        env.add_overload(name, id, text(), function)?;
    }
    env.add_overload("string", "ip_to_string", vec![ADDRESS.to_owned()], ip_text)?;
    env.add_overload(
        "string",
        "cidr_to_string",
        vec![RANGE.to_owned()],
        cidr_text,
    )?;
    for (name, function) in [
        ("family", family as Function),
        ("isUnspecified", |args| is(&args, IpAddr::is_unspecified)),
        ("isLoopback", |args| is(&args, IpAddr::is_loopback)),
        ("isLinkLocalMulticast", |args| is(&args, is_local_multicast)),
        ("isLinkLocalUnicast", |args| is(&args, is_local_unicast)),
        ("isGlobalUnicast", |args| is(&args, is_global_unicast)),
    ] {
        env.add_member_overload(
            name,
            &format!("ip_{name}"),
            ADDRESS.to_owned(),
            vec![],
            function,
        )?;
    }
    for (name, function) in [
        ("ip", range_address as Function),
        ("masked", masked),
        ("prefixLength", prefix_length),
    ] {
        env.add_member_overload(
            name,
            &format!("cidr_{name}"),
            RANGE.to_owned(),
            vec![],
            function,
        )?;
    }
    for (name, types, function) in [
        (
            "containsIP",
            [STRING_TYPE, ADDRESS.to_owned()],
            contains_ip as Function,
        ),
        (
            "containsCIDR",
            [STRING_TYPE, RANGE.to_owned()],
            contains_cidr,
        ),
    ] {
        for (index, argument) in types.into_iter().enumerate() {
            let id = format!("cidr_{name}_{index}");
            env.add_member_overload(name, &id, RANGE.to_owned(), vec![argument], function)?;
        }
    }
    Ok(())
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

    fn shown(self) -> String {
        format!("{}/{}", self.address, self.length)
    }
}

fn to_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    let found = address(&text).ok_or_else(|| failed("ip", "not an IP address"))?;
    custom(Address(found))
}

fn is_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Bool(address(&string(&args, 0)?).is_some()))
}

fn is_canonical<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    let found = address(&text).ok_or_else(|| failed("ip.isCanonical", "not an IP address"))?;
    answer(Value::Bool(found.to_string() == **text))
}

fn to_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    custom(range(&text).ok_or_else(|| failed("cidr", "not a range of addresses"))?)
}

fn is_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Bool(range(&string(&args, 0)?).is_some()))
}

fn ip_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(own::<Address>(&args, 0)?.0.to_string()))
}

fn cidr_text<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(own::<Range>(&args, 0)?.shown()))
}

fn family<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let is_four = own::<Address>(&args, 0)?.0.is_ipv4();
    answer(Value::Int(if is_four { 4 } else { 6 }))
}

fn is<'b, 'v>(args: &Args<'_, '_>, test: impl Fn(&IpAddr) -> bool) -> Answer<'b, 'v> {
    answer(Value::Bool(test(&own::<Address>(args, 0)?.0)))
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

fn range_address<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    custom(Address(own::<Range>(&args, 0)?.address))
}

fn masked<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let range = *own::<Range>(&args, 0)?;
    let address = range.start(range.address);
    custom(Range { address, ..range })
}

fn prefix_length<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Int(i64::from(own::<Range>(&args, 0)?.length)))
}

fn contains_ip<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let range = *own::<Range>(&args, 0)?;
    let wanted = match own::<Address>(&args, 1) {
        Ok(wanted) => wanted.0,
        Err(_) => {
            address(&string(&args, 1)?).ok_or_else(|| failed("containsIP", "not an IP address"))?
        }
    };
    answer(Value::Bool(range.contains(wanted)))
}

fn contains_cidr<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let outer = *own::<Range>(&args, 0)?;
    let inner: Result<Range, ExecutionError> = match own::<Range>(&args, 1) {
        Ok(inner) => Ok(*inner),
        Err(_) => range(&string(&args, 1)?)
            .ok_or_else(|| failed("containsCIDR", "not a range of addresses")),
    };
    let inner = inner?;
    answer(Value::Bool(
        inner.length >= outer.length && outer.contains(inner.address),
    ))
}
