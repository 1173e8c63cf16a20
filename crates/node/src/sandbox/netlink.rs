//! Route netlink without an async runtime: one request, one acknowledgement.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};
use sha2::Digest as _;

/// A socket that speaks to the network namespace in which it was opened, wherever its owner goes.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the current network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Makes a bridge that is up; one of that name that is already there is good.
    pub(crate) fn add_bridge(&mut self, name: &str) -> io::Result<()> {
        let mut message = up();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        // A bridge without an address of its own takes the lowest of its ports', another one whenever
        // such a port comes; those who know the old one would talk to nobody for a while.
        let digest = sha2::Sha256::digest(name);
        let address = [&[0x02], &digest[..5]].concat();
        message.attributes.push(LinkAttribute::Address(address));
        message
            .attributes
            .push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(
                InfoKind::Bridge,
            )]));
        match self.request(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
        ) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Makes a pair of interfaces: `name` here, on a bridge and up, and `peer` in another namespace.
    pub(crate) fn add_pair(
        &mut self,
        name: &str,
        bridge: Option<u32>,
        peer: &str,
        namespace: impl AsFd,
    ) -> io::Result<()> {
        let mut there = LinkMessage::default();
        there
            .attributes
            .push(LinkAttribute::IfName(peer.to_owned()));
        there
            .attributes
            .push(LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd()));
        let mut message = up();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        if let Some(bridge) = bridge {
            message.attributes.push(LinkAttribute::Controller(bridge));
        }
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(there))),
        ]));
        self.request(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Removes an interface, and with it the other end of its pair.
    pub(crate) fn delete(&mut self, name: &str) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        self.request(RouteNetlinkMessage::DelLink(message), 0)
    }

    pub(crate) fn index(&mut self, name: &str) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        match self.exchange(RouteNetlinkMessage::GetLink(message), 0)? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link.header.index),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut message = up();
        message.header.index = index;
        self.request(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives an interface an address; one that is already there is good.
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        address: Ipv4Addr,
        prefix: u8,
    ) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = index;
        let address = IpAddr::V4(address);
        message.attributes.push(AddressAttribute::Local(address));
        message.attributes.push(AddressAttribute::Address(address));
        match self.request(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
        ) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    /// Sends everything without a better way to `gateway`.
    pub(crate) fn add_default_route(&mut self, index: u32, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message
            .attributes
            .push(RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
        message.attributes.push(RouteAttribute::Oif(index));
        self.request(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, flags).map(drop)
    }

    /// Asks, and returns what is answered before the acknowledgement.
    fn exchange(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut found = None;
        loop {
            let (answer, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => found = Some(message),
                NetlinkPayload::Error(error) => {
                    return error.code.map_or(Ok(found), |code| {
                        Err(io::Error::from_raw_os_error(code.get().abs()))
                    });
                }
                _ => {}
            }
        }
    }
}

/// News of the addresses and routes of the network namespace in which it was opened.
pub(crate) struct Changes(Socket);

impl Changes {
    pub(crate) fn open() -> io::Result<Self> {
        const IPV4_ADDRESSES: u32 = 0x10;
        const IPV4_ROUTES: u32 = 0x40;
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, IPV4_ADDRESSES | IPV4_ROUTES))?;
        socket.set_non_blocking(true)?;
        Ok(Self(socket))
    }

    /// Reads all messages. What they say does not matter: whoever waits looks again.
    pub(crate) fn drain(&self) {
        // Too many to keep is an error, and news as well.
        while self.0.recv_from_full().is_ok() {}
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn up() -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message
}
