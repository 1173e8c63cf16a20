//! Which name servers a pod can ask, and which addresses are the host's own.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use nix::ifaddrs::getifaddrs;

/// Where systemd keeps the servers that its own stub at 127.0.0.53 asks.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";

/// What a pod's `resolv.conf` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolvers {
    pub(crate) servers: Vec<Ipv4Addr>,
    search: Vec<String>,
}

impl Resolvers {
    /// Those of this machine that a pod can reach, or those that the administrator named.
    pub(crate) fn of_host(named: &[Ipv4Addr]) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        choose(
            named,
            &read("/etc/resolv.conf"),
            &read(BEHIND_STUB),
            &own_addresses(),
        )
    }

    /// The file. Without a server, nobody answers at the address that is given, and that at once: a
    /// name that is not in the hosts file is not found without waiting.
    pub(crate) fn file(&self) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let _ = writeln!(text, "nameserver {server}");
        }
        if self.servers.is_empty() {
            text.push_str("nameserver 127.0.0.1\n");
        }
        if !self.search.is_empty() {
            let _ = writeln!(text, "search {}", self.search.join(" "));
        }
        // A server that does not answer costs two seconds and not the usual ten.
        let attempts = if self.servers.is_empty() { 1 } else { 2 };
        let _ = writeln!(text, "options timeout:1 attempts:{attempts}");
        text
    }

    /// The line of `nsswitch.conf`. Names of pods are in the hosts file, which comes first: no name
    /// server has to say that it does not know them.
    pub(crate) fn switch(&self) -> &'static str {
        if self.servers.is_empty() {
            "hosts: files"
        } else {
            "hosts: files dns"
        }
    }
}

fn choose(named: &[Ipv4Addr], usual: &str, behind: &str, own: &[Ipv4Addr]) -> Resolvers {
    let reachable = |server: &Ipv4Addr| {
        !server.is_loopback() && !server.is_unspecified() && !own.contains(server)
    };
    let servers = |text: &str| -> Vec<Ipv4Addr> {
        words(text, "nameserver")
            .filter_map(|word| word.parse().ok())
            .filter(reachable)
            .take(3)
            .collect()
    };
    let found = [named.to_vec(), servers(usual), servers(behind)];
    let servers = found.into_iter().find(|servers| !servers.is_empty());
    let servers = servers.unwrap_or_default();
    let search = if servers.is_empty() {
        Vec::new()
    } else {
        words(usual, "search").map(str::to_owned).collect()
    };
    Resolvers { servers, search }
}

fn words<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(move |line| line.trim().strip_prefix(key))
        .filter(|rest| rest.starts_with([' ', '\t']))
        .flat_map(str::split_whitespace)
}

/// The addresses of the network namespace that this process is in.
pub(crate) fn own_addresses() -> Vec<Ipv4Addr> {
    let Ok(all) = getifaddrs() else {
        return Vec::new();
    };
    let mut own: Vec<Ipv4Addr> = all
        .filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip()))
        .filter(|address| !address.is_loopback())
        .collect();
    own.sort_unstable();
    own.dedup();
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUB: &str = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.test lan\n";
    const BEHIND: &str = "# made by systemd\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n";

    fn servers(named: &[&str], usual: &str, behind: &str, own: &[&str]) -> Vec<String> {
        let parse = |all: &[&str]| -> Vec<Ipv4Addr> {
            all.iter().map(|text| text.parse().unwrap()).collect()
        };
        let chosen = choose(&parse(named), usual, behind, &parse(own));
        chosen.servers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_stub_on_loopback_gives_way_to_the_servers_behind_it() {
        assert_eq!(servers(&[], STUB, BEHIND, &[]), ["192.0.2.53"]);
        assert!(servers(&[], STUB, "", &[]).is_empty());
        assert_eq!(
            servers(&[], "nameserver 198.51.100.1", BEHIND, &[]),
            ["198.51.100.1"]
        );
        // The host's own addresses are closed to pods.
        assert_eq!(
            servers(&[], "nameserver 10.0.0.1", BEHIND, &["10.0.0.1"]),
            ["192.0.2.53"]
        );
        assert_eq!(
            servers(&["203.0.113.1"], STUB, BEHIND, &[]),
            ["203.0.113.1"]
        );
        assert!(
            servers(
                &[],
                "nameservers 192.0.2.1\n#nameserver 192.0.2.2\n",
                "",
                &[]
            )
            .is_empty()
        );
    }

    #[test]
    fn without_a_server_nobody_waits() {
        let none = choose(&[], STUB, "", &[]);
        assert_eq!(
            none.file(),
            "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
        );
        assert_eq!(none.switch(), "hosts: files");
        let some = choose(&[], STUB, BEHIND, &[]);
        assert_eq!(
            some.file(),
            "nameserver 192.0.2.53\nsearch example.test lan\noptions timeout:1 attempts:2\n"
        );
        assert_eq!(some.switch(), "hosts: files dns");
    }
}
