//! The way out of pods.
//!
//! ```text
//!                    the node's own network namespace              the host
//! pod ── bridge ns0 ──┐                                        ┌── uplink ──> the world
//! pod ── bridge ns1 ──┴── forward, masquerade ── out0 ═════════┤
//!                                                              └── (nothing else)
//! ```
//! `out0` is one end of a pair of interfaces for root, whose other end the host forwards and masquerades;
//! for an ordinary user it belongs to `pasta`, which opens the host's sockets for it. Rules in the node's
//! namespace are the same for both, and hold whatever the host's firewall says: pods of one Kubernetes
//! namespace do not reach those of another, nor the host's own addresses, nor link-local ones, where
//! clouds keep their credentials. On the host root adds a table of its own, which drops what comes from
//! pods for the host itself.
//!
//! All of it belongs to a *keeper* ([`keeper`]), a small process that follows changes of the host's
//! addresses and routes, and takes everything away when the last of agent and supervisors is gone. They
//! hold a shared lock on one file; the keeper waits for the exclusive one.

pub(crate) mod host;
pub(crate) mod keeper;
pub(crate) mod resolvers;
mod rules;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::launch::{self, Bridges};
use crate::layout;

/// How long a keeper may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// How pods reach the outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// The administrator wants none.
    Off,
    /// The host forwards and masquerades.
    Masquerade,
    /// `pasta` opens the host's sockets for pods.
    Pasta,
    /// It is wanted, but cannot be had.
    Missing { reason: String },
}

impl Way {
    /// There is one.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Masquerade | Self::Pasta)
    }

    /// One word, for machines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Masquerade => "Masquerade",
            Self::Pasta => "Pasta",
            Self::Missing { .. } => "Missing",
        }
    }

    /// A sentence, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Off => "pods have no way out: switched off by --egress off".to_owned(),
            Self::Masquerade => "pods reach the outside with this machine's address".to_owned(),
            Self::Pasta => "pods reach the outside through pasta".to_owned(),
            Self::Missing { reason } => format!("pods have no way out: {reason}"),
        }
    }
}

/// What the keeper is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) way: Way,
    /// All addresses of pods.
    pub(crate) network: (Ipv4Addr, u8),
    /// The host's end of the link, or what stands for it; the node's end is the next address.
    pub(crate) link: Ipv4Addr,
    /// The interface on the host and the table of rules there.
    pub(crate) name: String,
    /// Resolvers that the administrator named.
    pub(crate) resolvers: Vec<Ipv4Addr>,
    /// The keeper knows the addresses of Services; those of earlier versions do not.
    #[serde(default)]
    pub(crate) services: bool,
}

/// What a port of a Service's address leads to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forward {
    /// The bridge of the Service's namespace.
    pub(crate) bridge: String,
    pub(crate) address: Ipv4Addr,
    /// `tcp` or `udp`.
    pub(crate) protocol: String,
    pub(crate) port: u16,
    pub(crate) targets: Vec<(Ipv4Addr, u16)>,
}

impl Setup {
    /// The node's own end of the link.
    pub(crate) fn inside(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.link) + 1)
    }
}

/// What the names of all interfaces and tables that nodes make on the host begin with.
pub(crate) const PREFIX: &str = "astrago";
/// Prefix length of the link between node and host.
pub(crate) const LINK_PREFIX: u8 = 30;

/// The way out while the agent holds it.
#[derive(Debug)]
pub(crate) struct Egress {
    pub(crate) way: Way,
    /// While somebody has it, the keeper stays.
    _lock: Option<Flock<File>>,
}

/// What the administrator says about the way out.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) on: bool,
    pub(crate) network: (Ipv4Addr, u8),
    pub(crate) resolvers: &'a [Ipv4Addr],
}

impl Egress {
    /// Opens the way out, or finds it open.
    pub(crate) fn open(
        program: &Path,
        data_dir: &Path,
        bridges: &Bridges,
        wanted: &Wanted<'_>,
    ) -> Self {
        let folder = Folder::new(data_dir);
        let way = if wanted.on {
            available(rustix::process::geteuid().is_root())
        } else {
            Way::Off
        };
        if !way.is_open() {
            let _ = folder.dismiss();
            return Self { way, _lock: None };
        }
        match folder.open(program, bridges, &way, wanted) {
            Ok(lock) => Self {
                way,
                _lock: Some(lock),
            },
            Err(error) => {
                let reason = astrago_net::chain(&error);
                let way = Way::Missing { reason };
                Self { way, _lock: None }
            }
        }
    }

    /// Tells the keeper where the addresses of Services lead.
    pub(crate) fn lead(data_dir: &Path, forwards: &[Forward]) -> io::Result<()> {
        let folder = Folder::new(data_dir);
        let path = layout::egress_services(&folder.0);
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(forwards)?)?;
        std::fs::rename(new, path)?;
        if let Some(keeper) = folder.keeper() {
            let pid = nix::unistd::Pid::from_raw(keeper.pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP)?;
        }
        Ok(())
    }
}

/// What this machine has to offer.
pub(crate) fn available(is_root: bool) -> Way {
    let tunnel = File::options().read(true).write(true).open("/dev/net/tun");
    judge(&Found {
        is_root,
        nft: find_program("nft").is_some(),
        pasta: find_program("pasta").is_some(),
        tunnel: tunnel.is_ok(),
    })
}

/// What was found on this machine.
struct Found {
    is_root: bool,
    nft: bool,
    pasta: bool,
    /// This user may make tunnels.
    tunnel: bool,
}

fn judge(found: &Found) -> Way {
    let missing = |reason: &str| Way::Missing {
        reason: reason.to_owned(),
    };
    match (found.is_root, found.nft, found.pasta, found.tunnel) {
        (true, true, ..) => Way::Masquerade,
        (false, true, true, true) => Way::Pasta,
        (_, false, ..) => missing("the program nft is not installed"),
        (false, _, false, _) => missing("the program pasta is not installed"),
        (false, ..) => missing("this user may not open /dev/net/tun"),
    }
}

/// The folder in which agent and keeper meet.
struct Folder(PathBuf);

impl Folder {
    fn new(data_dir: &Path) -> Self {
        Self(layout::egress(data_dir))
    }

    /// Starts a keeper, unless one keeps these very bridges.
    fn open(
        &self,
        program: &Path,
        bridges: &Bridges,
        way: &Way,
        wanted: &Wanted<'_>,
    ) -> Result<Flock<File>> {
        let failed = Error::folder(&self.0);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(&failed)?;
        let lock = hold(&layout::egress_users(&self.0)).map_err(&failed)?;
        let namespace = bridges.inode().map_err(&failed)?;
        match self.keeper() {
            Some(keeper)
                if keeper.namespace == namespace
                    && keeper.setup.way == *way
                    && keeper.setup.services =>
            {
                return Ok(lock);
            }
            Some(_) => self.dismiss()?,
            None => {}
        }
        let name = name(&self.0);
        let setup = Setup {
            way: way.clone(),
            network: wanted.network,
            link: link(wanted.network, &name, &resolvers::own_addresses()),
            name,
            resolvers: wanted.resolvers.to_vec(),
            services: true,
        };
        let text = serde_json::to_vec(&setup).map_err(|error| failed(error.into()))?;
        std::fs::write(self.0.join("setup.json"), text).map_err(&failed)?;
        launch::keep_egress(program, bridges, &self.0).map_err(Error::Keeper)?;
        Ok(lock)
    }

    /// The keeper that lives, if one does.
    fn keeper(&self) -> Option<keeper::Record> {
        let path = layout::egress_keeper(&self.0);
        let file = File::options().read(true).write(true).open(&path).ok()?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(_) => None,
            Err(_) => serde_json::from_slice(&std::fs::read(path).ok()?).ok(),
        }
    }

    /// Ends the keeper, and with it the way out.
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of a process that is no child is told by its lock alone"
    )]
    fn dismiss(&self) -> Result<()> {
        let begun = Instant::now();
        while let Some(keeper) = self.keeper() {
            let pid = nix::unistd::Pid::from_raw(keeper.pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            if begun.elapsed() > PATIENCE {
                return Err(Error::Stuck { pid: keeper.pid });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Takes part in keeping the way out open, for as long as the result lives.
pub(crate) fn hold(users: &Path) -> io::Result<Flock<File>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(users)?;
    Flock::lock(file, FlockArg::LockShared).map_err(|(_, errno)| errno.into())
}

/// A name for what is made on the host, the same at every start and another one for another folder.
fn name(folder: &Path) -> String {
    use sha2::Digest as _;
    let place = std::fs::metadata(folder).map_or(0, |metadata| metadata.ino());
    let text = format!("{} {place}", folder.display());
    let digest = sha2::Sha256::digest(text.as_bytes());
    format!(
        "{PREFIX}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2]
    )
}

/// Addresses for the link: four in the last 1024 of the pods' network, which no pod gets. Several nodes
/// on one machine take different ones.
fn link(network: (Ipv4Addr, u8), name: &str, own: &[Ipv4Addr]) -> Ipv4Addr {
    let last = layout::last_subnet(network);
    let seed = name
        .bytes()
        .fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    let places = (0..256).map(|step| u32::from(last) + (seed.wrapping_add(step) % 256) * 4);
    let is_free = |base: &u32| !own.iter().any(|address| u32::from(*address) & !3 == *base);
    let base = places.clone().find(is_free).unwrap_or(u32::from(last));
    Ipv4Addr::from(base + 1)
}

pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Administrators' programs are often not on the PATH of others, and supervisors have none.
    let also = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(also)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Why there is no way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("failed to use {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("failed to open the way out")]
    Keeper(#[source] launch::Error),
    #[error("process {pid}, which keeps the way out of an earlier node, does not end")]
    Stuck { pid: i32 },
}

impl Error {
    fn folder(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Folder {
            path: path.clone(),
            source,
        }
    }
}

type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::root([true, true, false, false], "Masquerade")]
    #[case::root_without_nft([true, false, true, true], "Missing")]
    #[case::user([false, true, true, true], "Pasta")]
    #[case::user_without_pasta([false, true, false, true], "Missing")]
    #[case::user_without_nft([false, false, true, true], "Missing")]
    #[case::user_without_tunnels([false, true, true, false], "Missing")]
    fn what_a_machine_offers_decides(#[case] found: [bool; 4], #[case] want: &str) {
        let [is_root, nft, pasta, tunnel] = found;
        let found = Found {
            is_root,
            nft,
            pasta,
            tunnel,
        };
        assert_eq!(judge(&found).name(), want);
    }

    #[test]
    fn two_nodes_on_one_machine_take_different_links() {
        let network = (Ipv4Addr::new(10, 224, 0, 0), 12);
        let first = link(network, "astrago0a0b0c", &[]);
        assert_eq!(first.octets()[..2], [10, 239]);
        assert_eq!(u32::from(first) % 4, 1);
        let second = link(network, "astrago0a0b0c", &[first]);
        assert_ne!(first, second);
        assert_eq!(first, link(network, "astrago0a0b0c", &[]));
    }
}
