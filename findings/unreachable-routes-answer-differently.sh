#!/usr/bin/env bash
# Linux 6.18, iproute2 6.1: a route of type `unreachable` answers forwarded IPv4 by "host unreachable" (ICMP type 3, code 1), as ip-route(8) says
# of it, and forwarded IPv6 by "no route to destination" (ICMPv6 type 1, code 0), as no route at all would be answered. RFC 4443 section 3.1 has
# "address unreachable" (code 3) for the former. (net/ipv6/route.c gives all but `prohibit` the same answer when it drops what is forwarded.)
# What it means for a user: the same set-up gives EHOSTUNREACH to programs that connect by IPv4 and ENETUNREACH to those that do by IPv6; who
# counts or retries by the error sees two kinds. For the router's own programs both families give EHOSTUNREACH.
# What helps: nothing but to treat both errors alike.
# Needs root, ip and Python 3. Fails if the output is another one than below.
set -euo pipefail
if [ "${1:-}" != inside ]; then
    exec unshare --net --mount bash "$0" inside
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT
# Named namespaces of our own.
mount -t tmpfs none /run
mkdir -p /run/netns
ip netns add client
ip link add to-client type veth peer name to-router netns client
ip link set lo up
ip link set to-client up
ip -n client link set to-router up
ip addr add 192.0.2.1/24 dev to-client
ip -n client addr add 192.0.2.2/24 dev to-router
ip addr add 2001:db8::1/64 dev to-client nodad
ip -n client addr add 2001:db8::2/64 dev to-router nodad
ip -n client route add default via 192.0.2.1
ip -n client -6 route add default via 2001:db8::1
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
ip route add unreachable 198.51.100.0/24
ip -6 route add unreachable 2001:db8:1::/48
ask() {
    python3 - "$@" <<'PYTHON'
import errno, socket, sys
who, address = sys.argv[1:]
family = socket.AF_INET6 if ':' in address else socket.AF_INET
s = socket.socket(family)
s.settimeout(10)
print(f'{who} to {address}: {errno.errorcode[s.connect_ex((address, 80))]}')
PYTHON
}
export -f ask
{
    ip netns exec client bash -c 'ask client 198.51.100.1; ask client 2001:db8:1::1'
    ask router 198.51.100.1
    ask router 2001:db8:1::1
} | tee "$output"
diff "$output" - <<'EXPECTED'
client to 198.51.100.1: EHOSTUNREACH
client to 2001:db8:1::1: ENETUNREACH
router to 198.51.100.1: EHOSTUNREACH
router to 2001:db8:1::1: EHOSTUNREACH
EXPECTED
