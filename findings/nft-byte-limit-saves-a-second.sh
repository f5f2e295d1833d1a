#!/usr/bin/env bash
# nftables (Linux 6.18, nft 1.0.6): `limit rate over N bytes/second burst B bytes` lets pass N + B bytes before it drops, not B.
# The manual, nft(8) "LIMIT STATEMENT", calls `burst` "the number of packets/bytes allowed to exceed the rate". For packets it is that. For bytes
# the kernel makes the bucket as large as the rate of a whole unit of time and the burst together (nft_limit_init in
# net/netfilter/nft_limit.c), and it begins full.
# What it means for a user: the first second of a flood passes unlimited, and so does the first second after each change of a limit.
# With `bytes/minute` it is the first minute's worth.
# What helps: to replace a limit rarely; `tc police`, whose burst is what it says.
# Needs root, nft, ip and Python 3. Fails if the output is another one than below.
set -euo pipefail
if [ "${1:-}" != inside ]; then
    exec unshare --net bash "$0" inside
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT
ip link set lo up
# A thousand packets of 1000 bytes at once: how many pass?
passed() {
    nft "add table inet t; add chain inet t out { type filter hook output priority 0; policy accept; }"
    nft "add rule inet t out udp dport 9 limit rate over $1 drop"
    nft "add rule inet t out udp dport 9 counter"
    python3 - <<'PYTHON'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(1000):
    try:
        s.sendto(b'x' * 972, ('127.0.0.1', 9))
    except OSError:
        pass
PYTHON
    # The limit goes on while packets are sent: to the next ten, downwards.
    nft list table inet t | sed -n "s#.*counter packets \([0-9]*\)[0-9] bytes.*#$1: \10 packets pass#p"
    nft delete table inet t
}
{
    passed '100000 bytes/second burst 20000 bytes'
    passed '500000 bytes/hour burst 20000 bytes'
    passed '100/hour burst 20 packets'
} | tee "$output"
diff "$output" - <<'EXPECTED'
100000 bytes/second burst 20000 bytes: 120 packets pass
500000 bytes/hour burst 20000 bytes: 520 packets pass
100/hour burst 20 packets: 20 packets pass
EXPECTED
