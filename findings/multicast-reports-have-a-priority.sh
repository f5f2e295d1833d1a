#!/usr/bin/env bash
# Linux 6.18 (seen through nft 1.0.6): what a host says of the multicast groups it is in, MLDv2 and IGMPv3 reports, leaves with skb->priority 7, though
# no socket has set one. Neighbour and router discovery, ICMPv6 too, leave with 0. IGMP's reports carry DSCP CS6 besides, those of MLD none.
# The kernel gives both TC_PRIO_CONTROL where it makes them (net/ipv6/mcast.c, net/ipv4/igmp.c); nft(8), "meta priority", and tc-prio(8) do not tell.
# What it means for a user: a host joins groups by itself with every address of IPv6 that it gets. Rules on `meta priority`, and queueing
# disciplines that go by it, so find packets of a priority that nobody has configured, some seconds after an interface comes up.
# What helps: `meta l4proto { icmpv6, igmp } accept` before such a rule.
# Needs root, nft, ip and Python 3. Fails if the output is another one than below.
set -euo pipefail
if [ "${1:-}" != inside ]; then
    exec unshare --net bash "$0" inside
fi
output=$(mktemp)
trap 'rm -f "$output"' EXIT
nft -f - <<'RULES'
table inet t {
    counter mld2 { }
    counter mld2_of_priority_7 { }
    counter mld2_with_dscp { }
    counter igmp3 { }
    counter igmp3_of_priority_7 { }
    counter igmp3_with_dscp { }
    counter others { }
    counter others_with_priority { }
    chain out {
        type filter hook postrouting priority 0
        oifname != "v0" accept
        icmpv6 type mld2-listener-report jump of_mld
        meta l4proto igmp jump of_igmp
        counter name others
        meta priority != 0:0 counter name others_with_priority
    }
    chain of_mld {
        counter name mld2
        ip6 dscp != cs0 counter name mld2_with_dscp
        meta priority 0:7 counter name mld2_of_priority_7
        accept
    }
    chain of_igmp {
        counter name igmp3
        ip dscp cs6 counter name igmp3_with_dscp
        meta priority 0:7 counter name igmp3_of_priority_7
        accept
    }
}
RULES
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
ip address add 192.0.2.1/24 dev v0
python3 - <<'PYTHON'
import socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
group = struct.pack('4s4s', socket.inet_aton('239.1.2.3'), socket.inet_aton('192.0.2.1'))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
time.sleep(5)
PYTHON
packets() {
    nft list counter inet t "$1" | sed -n 's/.*packets \([0-9]*\) .*/\1/p'
}
share() {
    local all=$1 some=$2
    if [ "$all" = 0 ]; then echo 'never sent'; elif [ "$some" = 0 ]; then echo none; elif [ "$some" = "$all" ]; then echo all; else echo some; fi
}
for name in mld2 igmp3; do
    all=$(packets $name)
    echo "$name: of priority 7 $(share "$all" "$(packets ${name}_of_priority_7)"), with DSCP $(share "$all" "$(packets ${name}_with_dscp)")"
done > "$output"
echo "others: with a priority $(share "$(packets others)" "$(packets others_with_priority)")" >> "$output"
cat "$output"
diff "$output" - <<'EXPECTED'
mld2: of priority 7 all, with DSCP none
igmp3: of priority 7 all, with DSCP all
others: with a priority none
EXPECTED
