#!/bin/bash
# Runs a command on a "host" between a "world" and a "lan", all of them network namespaces of their own
# that end with it. Usage, in namespaces for network, mounts and processes: world.sh COMMAND...
#
#   lan 192.0.2.9 ── 192.0.2.1 host 198.51.100.2 ── 198.51.100.1 world 203.0.113.9 (a server),
#                                                   203.0.113.53 (names), 169.254.169.254 (credentials)
set -euo pipefail
ip link set lo up
unshare --net sleep infinity & world=$!
unshare --net sleep infinity & lan=$!
own=$(readlink /proc/self/ns/net)
for pid in $world $lan; do until [ "$(readlink /proc/$pid/ns/net)" != "$own" ]; do sleep 0.01; done; done
ip link add up0 type veth peer name w0 netns $world
ip link add lan0 type veth peer name l0 netns $lan
ip address add 198.51.100.2/24 dev up0
ip address add 192.0.2.1/24 dev lan0
ip link set up0 up
ip link set lan0 up
ip route add default via 198.51.100.1
# A second address of the host's own, as those of container bridges.
ip link add inner0 type bridge
ip address add 172.17.0.1/16 dev inner0
ip link set inner0 up
in_world() { nsenter --target "$world" --net "$@"; }
in_lan() { nsenter --target "$lan" --net "$@"; }
in_world ip address add 198.51.100.1/24 dev w0
in_world ip link set w0 up
in_world ip link set lo up
for address in 203.0.113.9 203.0.113.53 169.254.169.254; do in_world ip address add $address/32 dev lo; done
in_world ip route add 192.0.2.0/24 via 198.51.100.2
in_lan ip address add 192.0.2.9/24 dev l0
in_lan ip link set l0 up
in_lan ip link set lo up
in_lan ip route add default via 192.0.2.1
printf 'nameserver 203.0.113.53\nsearch world.test\n' > "$WORLD_DIR/resolv.conf"
mount --bind "$WORLD_DIR/resolv.conf" /etc/resolv.conf
# Ordinary users may make tunnels on most machines; here they do.
if [ -n "${WORLD_TUNNELS:-}" ]; then
  mkdir -p "$WORLD_DIR/dev"
  mount -t tmpfs -o dev none "$WORLD_DIR/dev"
  mknod -m 666 "$WORLD_DIR/dev/tun" c 10 200
  mount --bind "$WORLD_DIR/dev/tun" /dev/net/tun
fi
# Docker's policy, under which everything must work all the same.
if [ -n "${WORLD_STRICT:-}" ]; then iptables -P FORWARD DROP; fi
in_world python3 "$WORLD_DIR/server.py" "$WORLD_DIR/asked" &
in_lan python3 -m http.server 80 --bind 192.0.2.9 >/dev/null 2>&1 &
until in_world python3 -c 'import socket; socket.create_connection(("203.0.113.9", 80))' 2>/dev/null; do sleep 0.05; done
until in_lan python3 -c 'import socket; socket.create_connection(("192.0.2.9", 80))' 2>/dev/null; do sleep 0.05; done
export WORLD_PID=$world
"$@"
