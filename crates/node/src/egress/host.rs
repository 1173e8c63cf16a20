//! What is changed on the host and in the node's namespace: rules, settings, exceptions.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::keeper::{Error, Result};
use super::{PREFIX, find_program, rules};

/// Applies rules.
pub(super) fn nft(text: &str) -> Result<()> {
    let failed = Error::system("run nft");
    let program =
        find_program("nft").ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound)))?;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(&failed)?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(&failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().find(|line| !line.trim().is_empty());
    Err(Error::Words {
        action: "apply rules with nft",
        words: first.unwrap_or_default().to_owned(),
    })
}

/// The interfaces that forward because of other nodes on this machine.
pub(super) fn opened_by_others(own: &str) -> BTreeSet<String> {
    chains()
        .filter(|(name, _)| name != own)
        .flat_map(|(_, chain)| rules::guarded(&chain))
        .collect()
}

/// The tables of nodes on this machine that take the way out from all other nodes, as those of
/// earlier versions do.
pub(crate) fn selfish() -> Vec<String> {
    chains()
        .filter(|(_, chain)| rules::is_selfish(chain))
        .map(|(name, _)| name)
        .collect()
}

/// The rules for forwarding of all nodes on this machine, by the name of their table.
fn chains() -> impl Iterator<Item = (String, String)> {
    let program = find_program("nft").unwrap_or_default();
    let list = move |arguments: &[&str]| {
        let output = Command::new(&program)
            .arg("list")
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let bytes = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let names: Vec<String> = list(&["tables", "ip"])
        .lines()
        .filter_map(|line| line.trim().strip_prefix("table ip "))
        .filter(|name| name.starts_with(PREFIX))
        .map(str::to_owned)
        .collect();
    names.into_iter().map(move |name| {
        let chain = list(&["chain", "ip", &name, "forward"]);
        (name, chain)
    })
}

/// Docker and some firewalls forward nothing by default; what another table drops, ours cannot let
/// through. So the exception goes where they look.
pub(super) fn let_through(interface: &str, wanted: bool) {
    let Some(program) = find_program("iptables") else {
        return;
    };
    let run = |arguments: &[&str]| {
        Command::new(&program)
            .arg("-w")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    let policy = run(&["-S", "FORWARD"]).map(|output| output.stdout);
    let policy = String::from_utf8_lossy(&policy.unwrap_or_default()).into_owned();
    let strict = policy.starts_with("-P FORWARD DROP");
    let out = ["FORWARD", "-i", interface, "-j", "ACCEPT"];
    let back = [
        "FORWARD",
        "-o",
        interface,
        "-m",
        "conntrack",
        "--ctstate",
        "RELATED,ESTABLISHED",
        "-j",
        "ACCEPT",
    ];
    for rule in [&out[..], &back[..]] {
        let with = |verb: &'static str| [&[verb], rule].concat();
        let present = policy.contains(&format!(" {interface} ")) && run(&with("-C")).is_some();
        match (wanted && strict, present) {
            (true, false) => drop(run(&with("-I"))),
            (false, true) => drop(run(&with("-D"))),
            _ => {}
        }
    }
}

/// The interfaces with a default route.
pub(super) fn uplinks() -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    default_routes(&table)
}

fn default_routes(table: &str) -> BTreeSet<String> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (interface, destination) = (fields.next()?, fields.next()?);
            let mask = fields.nth(5)?;
            (destination == "00000000" && mask == "00000000").then(|| interface.to_owned())
        })
        .collect()
}

pub(super) fn setting(name: &str, value: &str) -> Result<()> {
    let path = Path::new("/proc/sys/net").join(name);
    std::fs::write(&path, value).map_err(|source| Error::Setting { path, source })
}

pub(super) fn read_setting(name: &str) -> String {
    let text = std::fs::read_to_string(Path::new("/proc/sys/net").join(name));
    text.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplinks_are_those_with_a_default_route() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
            wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
            tun0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000080\t0\t0\t0\n";
        assert_eq!(
            default_routes(table),
            ["eth0".to_owned(), "wlan0".to_owned()].into()
        );
    }
}
