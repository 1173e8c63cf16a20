//! The rules, as `nft` reads them. Pure. Each text replaces its table as a whole, at once.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::{Forward, LINK_PREFIX, PREFIX, Setup};

/// The interface that leads out of the node's namespace.
pub(super) const OUT: &str = "out0";

/// Where no pod may go, whatever the host is: this very network, link-local addresses (metadata and
/// credentials of clouds), those that mean many, and the one place where a cloud keeps its metadata
/// elsewhere.
const CLOSED: [&str; 6] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "100.100.100.200/32",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// What the host is like at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) addresses: Vec<Ipv4Addr>,
    pub(super) resolvers: Vec<Ipv4Addr>,
    /// Interfaces that forward only because of us.
    pub(super) opened: BTreeSet<String>,
}

/// The rules in the node's own namespace.
pub(super) fn inside(setup: &Setup, host: &Host) -> String {
    let (network, prefix) = setup.network;
    let network = Ipv4Addr::from(
        u32::from(network)
            & u32::MAX
                .checked_shl(32 - u32::from(prefix))
                .unwrap_or_default(),
    );
    // The kernel refuses a set in which one range contains another.
    let mut singles: Vec<String> = host
        .addresses
        .iter()
        .filter(|address| !CLOSED.iter().any(|range| contains(range, **address)))
        .filter(|address| !contains(&format!("{network}/{prefix}"), **address))
        .map(|address| format!("{address}/32"))
        .collect();
    singles.extend(CLOSED.map(str::to_owned));
    singles.push(format!("{network}/{prefix}"));
    let closed = singles.join(", ");
    let names = if host.resolvers.is_empty() {
        String::new()
    } else {
        let servers: Vec<String> = host.resolvers.iter().map(ToString::to_string).collect();
        let servers = servers.join(", ");
        // Some clouds' name server is a link-local address; this port of it is open.
        format!(
            "ip daddr {{ {servers} }} udp dport 53 accept\n    ip daddr {{ {servers} }} tcp dport 53 accept\n    "
        )
    };
    format!(
        r#"table ip astrago
delete table ip astrago
table ip astrago {{
  chain input {{
    type filter hook input priority filter; policy drop;
    ct state established,related accept
    icmp type echo-request accept
  }}
  chain forward {{
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ct state invalid drop
    iifname "ns*" oifname "ns*" ct status dnat accept
    iifname "{OUT}" drop
    oifname != "{OUT}" reject with icmp type admin-prohibited
    {names}ip daddr {{ {closed} }} reject with icmp type admin-prohibited
    accept
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    oifname "{OUT}" masquerade
  }}
}}
"#
    )
}

/// The rules that lead from the addresses of Services to pods, in the node's own namespace. Only pods of the Service's
/// own namespace are led anywhere. Answers come back the same way, because the pod sees the bridge as its peer.
pub(super) fn services(forwards: &[Forward]) -> String {
    let mut ways = String::new();
    for Forward {
        bridge,
        address,
        protocol,
        port,
        targets,
    } in forwards
    {
        let to = match targets.as_slice() {
            [] => continue,
            [(target, port)] => format!("{target}:{port}"),
            several => {
                let places = several.iter().enumerate();
                let places: Vec<String> = places
                    .map(|(index, (target, port))| format!("{index} : {target} . {port}"))
                    .collect();
                let (count, places) = (several.len(), places.join(", "));
                format!("numgen random mod {count} map {{ {places} }}")
            }
        };
        let _ = writeln!(
            ways,
            "    iifname \"{bridge}\" ip daddr {address} {protocol} dport {port} dnat to {to}"
        );
    }
    let all: BTreeSet<String> = forwards.iter().map(|it| it.address.to_string()).collect();
    let all: Vec<String> = all.into_iter().collect();
    // What leads nowhere is said to be closed, and not looked for outside.
    let closed = if all.is_empty() {
        String::new()
    } else {
        let all = all.join(", ");
        format!("    ip daddr {{ {all} }} reject with icmp type port-unreachable\n")
    };
    format!(
        r#"table ip astrago_services
delete table ip astrago_services
table ip astrago_services {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
{ways}  }}
  chain forward {{
    type filter hook forward priority -1;
{closed}  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    iifname "ns*" oifname "ns*" ct status dnat masquerade
  }}
}}
"#
    )
}

/// The rules on the host.
pub(super) fn host(setup: &Setup, host: &Host) -> String {
    let (name, inside) = (&setup.name, setup.inside());
    let mut guard = String::new();
    for interface in &host.opened {
        // It forwards for pods, also those of other nodes on this machine, and for nobody else, as before.
        let _ = write!(
            guard,
            "iifname \"{interface}\" oifname != \"{PREFIX}*\" drop\n    "
        );
    }
    format!(
        r#"table ip {name}
delete table ip {name}
table ip {name} {{
  chain prerouting {{
    type filter hook prerouting priority -150; policy accept;
    iifname "{name}" ip saddr != {inside} drop
    iifname "{name}" fib daddr type != unicast drop
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname "{name}" drop
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname "{name}" oifname "{PREFIX}*" drop
    iifname "{name}" accept
    oifname "{name}" ct state established,related accept
    oifname "{name}" drop
    {guard}
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {inside} oifname != "{name}" masquerade
  }}
}}
"#
    )
}

/// The interfaces that a node's rules for forwarding guard, as `nft` lists them: those that forward
/// because of it.
pub(super) fn guarded(chain: &str) -> BTreeSet<String> {
    chain
        .lines()
        .filter_map(|line| {
            let line = line.trim().strip_suffix("drop")?;
            let (interface, _) = line.strip_prefix("iifname \"")?.split_once('"')?;
            (!interface.starts_with(PREFIX)).then(|| interface.to_owned())
        })
        .collect()
}

/// Whether these rules let nobody but their own node use the interfaces that they guard.
pub(super) fn is_selfish(chain: &str) -> bool {
    guarded(chain)
        .iter()
        .any(|interface| chain.contains(&format!("iifname \"{interface}\" drop")))
}

/// Takes the rules on the host away.
pub(super) fn nothing(setup: &Setup) -> String {
    format!("table ip {0}\ndelete table ip {0}\n", setup.name)
}

/// Arguments of `pasta`: only outwards, nothing of the host's loopback, no configuration by others.
pub(super) fn pasta(setup: &Setup, namespace: &str) -> Vec<String> {
    let mut all: Vec<String> = [
        "--foreground",
        "--quiet",
        "--ipv4-only",
        "--config-net",
        "--no-map-gw",
        "--no-dhcp",
        "--no-netns-quit",
        "--netns-only",
        "--ns-ifname",
        OUT,
        "--tcp-ports",
        "none",
        "--udp-ports",
        "none",
        "--tcp-ns",
        "none",
        "--udp-ns",
        "none",
    ]
    .map(str::to_owned)
    .to_vec();
    for (flag, value) in [
        ("--address", setup.inside().to_string()),
        ("--netmask", LINK_PREFIX.to_string()),
        ("--gateway", setup.link.to_string()),
        ("--netns", namespace.to_owned()),
    ] {
        all.extend([flag.to_owned(), value]);
    }
    all
}

fn contains(range: &str, address: Ipv4Addr) -> bool {
    let Some((base, prefix)) = range.split_once('/') else {
        return false;
    };
    let (Ok(base), Ok(prefix)) = (base.parse::<Ipv4Addr>(), prefix.parse::<u32>()) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or_default();
    u32::from(base) & mask == u32::from(address) & mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Way;

    fn setup() -> Setup {
        Setup {
            way: Way::Masquerade,
            network: (Ipv4Addr::new(10, 224, 0, 0), 12),
            link: Ipv4Addr::new(10, 239, 252, 1),
            name: "astragoabcdef".into(),
            resolvers: Vec::new(),
            services: true,
        }
    }

    #[test]
    fn the_hosts_addresses_and_link_local_ones_are_closed_before_anything_is_open() {
        let host = Host {
            addresses: vec![Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(169, 254, 3, 3)],
            resolvers: vec![Ipv4Addr::new(169, 254, 169, 254)],
            ..Host::default()
        };
        let text = inside(&setup(), &host);
        assert!(text.contains("169.254.0.0/16"), "{text}");
        assert!(text.contains("192.0.2.7/32"), "{text}");
        assert!(text.contains("10.224.0.0/12"), "{text}");
        assert!(!text.contains("169.254.3.3/32"), "{text}");
        let place = |what: &str| text.find(what).unwrap();
        assert!(place("169.254.169.254 } udp dport 53 accept") < place("192.0.2.7/32"));
        assert!(place("192.0.2.7/32") < place("    accept\n"));
    }

    #[test]
    fn a_service_leads_to_its_pods_and_without_any_is_closed() {
        let forward = |targets: &[u8]| Forward {
            bridge: "ns3".into(),
            address: Ipv4Addr::new(10, 96, 0, 7),
            protocol: "tcp".into(),
            port: 80,
            targets: targets
                .iter()
                .map(|last| (Ipv4Addr::new(10, 224, 0, *last), 8080))
                .collect(),
        };
        let way = "iifname \"ns3\" ip daddr 10.96.0.7 tcp dport 80 dnat to";
        let closed = "ip daddr { 10.96.0.7 } reject";
        let none = services(&[forward(&[])]);
        assert!(!none.contains("dport") && none.contains(closed), "{none}");
        let one = services(&[forward(&[2])]);
        assert!(one.contains(&format!("{way} 10.224.0.2:8080\n")), "{one}");
        let two = services(&[forward(&[2, 3])]);
        let map = "numgen random mod 2 map { 0 : 10.224.0.2 . 8080, 1 : 10.224.0.3 . 8080 }";
        assert!(two.contains(&format!("{way} {map}\n")), "{two}");
        assert!(!services(&[]).contains("reject"));
    }

    #[test]
    fn an_interface_that_forwards_because_of_us_forwards_for_us_alone() {
        let host_now = Host {
            opened: ["eth0".to_owned()].into(),
            ..Host::default()
        };
        let text = host(&setup(), &host_now);
        let ours = text.find("oifname \"astragoabcdef\" ct state").unwrap();
        let others = "iifname \"eth0\" oifname != \"astrago*\" drop";
        assert!(ours < text.find(others).unwrap(), "{text}");
        assert_eq!(guarded(&text), host_now.opened);
        assert!(!is_selfish(&text));
        assert!(is_selfish(&text.replace(" oifname != \"astrago*\"", "")));
        assert!(!host(&setup(), &Host::default()).contains("eth0"));
    }
}
