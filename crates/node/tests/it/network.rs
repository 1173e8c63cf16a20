//! Who can reach whom.

use std::net::{Ipv4Addr, TcpListener};

use astrago_node::control::{Channel, Request};
use astrago_node::spec::Network;

use crate::support::Bench;

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 224, 0, last)
}

fn on(bridge: &str, last: u8) -> Network {
    Network::Bridge {
        bridge: bridge.into(),
        address: address(last),
        prefix: 22,
        gateway: None,
    }
}

const CONNECT: &str = "import socket, sys\ntry:\n    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2); print('reached')\nexcept OSError as e: print('refused', e)";

#[test]
fn a_pod_reaches_its_own_bridge_and_nothing_else() {
    let Some(bench) = Bench::new() else { return };
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = bench.spec("server", "exec python3 -m http.server 29500 --bind 0.0.0.0");
    server.network = on("ns0", 2);
    let server = bench.start(server);
    server.until("runs", |state| state.containers[0].is_running());
    let ask = |name: &str, network: Network, host: &str, port: u16, want: &str| {
        let script = format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do r=$(python3 -c \"{CONNECT}\" {host} {port}); case $r in {want}*) break;; esac; sleep 0.2; done; echo $r"
        );
        let mut spec = bench.spec(name, &script);
        spec.network = network;
        let pod = bench.start(spec);
        pod.finished();
        let log = pod.log("main", 0);
        assert!(log.starts_with(want), "{name}: {log}");
    };
    ask("friend", on("ns0", 3), "10.224.0.2", 29500, "reached");
    ask("stranger", on("ns1", 4), "10.224.0.2", 29500, "refused");
    ask("local", on("ns0", 5), "127.0.0.1", port, "refused");
    let own = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("198.51.100.1:9")?;
        socket.local_addr()
    });
    if let Ok(own) = own {
        ask("host", on("ns0", 6), &own.ip().to_string(), port, "refused");
    }
    server.stop(0);
}

#[test]
fn many_pods_that_come_at_once_are_all_connected() {
    let Some(bench) = Bench::new() else { return };
    let pods: Vec<_> = std::thread::scope(|scope| {
        let start = |pod: u8| {
            let mut spec = bench.spec("one", "exec sleep 600");
            // As UIDs that ascend in time: what differs comes last.
            spec.uid = format!("019a8c2f-1b3d-7abc-8def-{pod:012}");
            spec.network = on("ns0", 10 + pod);
            bench.start(spec)
        };
        let all: Vec<_> = (0..40).map(|pod| scope.spawn(move || start(pod))).collect();
        all.into_iter().map(|pod| pod.join().unwrap()).collect()
    });
    // Each is asked from the network of its neighbour; nobody listens, and only a living one says so.
    for (asking, asked) in pods.iter().zip((10..50).cycle().skip(1)) {
        let mut channel = Channel::connect(asking.dir.path()).unwrap();
        channel.send(&Request::Socket, &[]).unwrap();
        let (_, mut descriptors) = channel
            .receive::<astrago_node::control::Response>()
            .unwrap()
            .unwrap();
        let socket = descriptors.remove(0);
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        let target = std::net::SocketAddrV4::new(address(asked), 9);
        let answer = rustix::net::connect(&socket, &target);
        assert_eq!(answer, Err(rustix::io::Errno::CONNREFUSED), "{asked}");
    }
    for pod in &pods {
        pod.stop(0);
    }
}
