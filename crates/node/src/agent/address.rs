//! Which pod has which address.
//!
//! Every Kubernetes namespace with pods on this node has a subnet of its own, on a bridge of its own.
//! What is given out is written in each pod's `pod.json`, from which a new agent learns it again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::layout::{LONGEST_PREFIX, SUBNET};

/// The addresses of a node.
#[derive(Debug)]
pub(super) struct Addresses {
    network: u32,
    subnets: u32,
    by_namespace: BTreeMap<String, u32>,
    by_pod: BTreeMap<String, (String, Ipv4Addr)>,
    taken: BTreeSet<Ipv4Addr>,
    /// Where the search begins, so that an address rests before it is used again.
    last: BTreeMap<String, u32>,
}

/// An address with all that a pod needs to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) bridge: String,
    pub(super) address: Ipv4Addr,
    pub(super) prefix: u8,
    /// The bridge's own address, which leads outside where there is a way.
    pub(super) gateway: Ipv4Addr,
}

impl Addresses {
    pub(super) fn new((network, prefix): (Ipv4Addr, u8)) -> Self {
        let prefix = prefix.clamp(8, LONGEST_PREFIX);
        let mask = u32::MAX << (32 - u32::from(prefix));
        Self {
            network: u32::from(network) & mask,
            // The last one is for the link to the outside.
            subnets: (1 << (SUBNET - prefix)) - 1,
            by_namespace: BTreeMap::new(),
            by_pod: BTreeMap::new(),
            taken: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    /// Takes note of an address that a pod has from an earlier agent.
    pub(super) fn restore(&mut self, namespace: &str, uid: &str, address: Ipv4Addr) {
        let offset = u32::from(address).wrapping_sub(self.network);
        let subnet = offset >> (32 - u32::from(SUBNET));
        if subnet < self.subnets {
            self.by_namespace
                .entry(namespace.to_owned())
                .or_insert(subnet);
        }
        self.taken.insert(address);
        self.by_pod
            .insert(uid.to_owned(), (namespace.to_owned(), address));
    }

    /// The pod's address, given out now if it has none. `None` when all are in use.
    pub(super) fn lease(&mut self, namespace: &str, uid: &str) -> Option<Lease> {
        let subnet = self.subnet(namespace)?;
        let size = 1 << (32 - u32::from(SUBNET));
        let base = self.network + subnet * size;
        let address = if let Some((_, address)) = self.by_pod.get(uid) {
            *address
        } else {
            let last = self.last.get(namespace).copied().unwrap_or(1);
            // The first address is the gateway's, the last one everybody's.
            let found = (0..size - 3)
                .map(|step| 2 + (last - 1 + step) % (size - 3))
                .find(|host| !self.taken.contains(&Ipv4Addr::from(base + host)))?;
            self.last.insert(namespace.to_owned(), found);
            let address = Ipv4Addr::from(base + found);
            self.taken.insert(address);
            self.by_pod
                .insert(uid.to_owned(), (namespace.to_owned(), address));
            address
        };
        Some(Lease {
            bridge: format!("ns{subnet}"),
            address,
            prefix: SUBNET,
            gateway: Ipv4Addr::from(base + 1),
        })
    }

    /// The bridge of a namespace, if it has one, and the first of the addresses of its pods.
    pub(super) fn bridge(&self, namespace: &str) -> Option<(String, Ipv4Addr)> {
        let subnet = self.by_namespace.get(namespace)?;
        let base = self.network + subnet * (1 << (32 - u32::from(SUBNET)));
        Some((format!("ns{subnet}"), Ipv4Addr::from(base)))
    }

    /// The pod is gone, or has ended for good.
    pub(super) fn release(&mut self, uid: &str) {
        if let Some((_, address)) = self.by_pod.remove(uid) {
            self.taken.remove(&address);
        }
    }

    fn subnet(&mut self, namespace: &str) -> Option<u32> {
        if let Some(subnet) = self.by_namespace.get(namespace) {
            return Some(*subnet);
        }
        let used: BTreeSet<_> = self.by_namespace.values().copied().collect();
        let free = (0..self.subnets)
            .find(|subnet| !used.contains(subnet))
            .or_else(|| {
                let busy: BTreeSet<_> = self
                    .by_pod
                    .values()
                    .map(|(namespace, _)| namespace.clone())
                    .collect();
                let idle = self
                    .by_namespace
                    .keys()
                    .find(|namespace| !busy.contains(*namespace))
                    .cloned()?;
                self.by_namespace.remove(&idle)
            })?;
        self.by_namespace.insert(namespace.to_owned(), free);
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Addresses {
        Addresses::new((Ipv4Addr::new(10, 224, 0, 0), 12))
    }

    #[test]
    fn pods_of_one_namespace_share_a_bridge_and_those_of_two_do_not() {
        let mut all = addresses();
        let a = all.lease("one", "a").unwrap();
        let b = all.lease("one", "b").unwrap();
        let c = all.lease("two", "c").unwrap();
        assert_eq!(
            (a.bridge.as_str(), a.address),
            ("ns0", Ipv4Addr::new(10, 224, 0, 2))
        );
        assert_eq!(
            (b.bridge.as_str(), b.address),
            ("ns0", Ipv4Addr::new(10, 224, 0, 3))
        );
        assert_eq!(
            (c.bridge.as_str(), c.address),
            ("ns1", Ipv4Addr::new(10, 224, 4, 2))
        );
        assert_eq!(all.lease("one", "a").unwrap(), a);
    }

    #[test]
    fn a_new_agent_gives_nobody_an_address_that_is_in_use() {
        let mut all = addresses();
        all.restore("two", "c", Ipv4Addr::new(10, 224, 4, 2));
        assert_eq!(
            all.lease("two", "d").unwrap().address,
            Ipv4Addr::new(10, 224, 4, 3)
        );
        assert_eq!(all.lease("two", "c").unwrap().bridge, "ns1");
        assert_eq!(all.lease("one", "a").unwrap().bridge, "ns0");
    }

    #[test]
    fn addresses_run_out_and_come_back() {
        let mut all = Addresses::new((Ipv4Addr::new(10, 0, 0, 0), SUBNET));
        let mut given = BTreeSet::new();
        for pod in 0..1021 {
            assert!(given.insert(all.lease("n", &pod.to_string()).unwrap().address));
        }
        assert_eq!(all.lease("n", "more"), None);
        all.release("7");
        assert!(all.lease("n", "more").is_some());
        assert_eq!(all.lease("other", "x"), None);
    }
}
