#!/usr/bin/env bash
# nfdump 1.7.1 (nfcapd): records of options data make it report sequence errors, though no message is lost.
# RFC 7011 §3.1 has the sequence number of IPFIX count all data records, and §3.4.2.2 calls what an options template describes a data
# record, too. nfcapd expects only records of flows to count: after each message with options data the next one is an error.
# What it means for a user: an exporter that tells of interfaces, samplers or paths by options data, as the RFC has it, looks as if
# the network lost its messages, by the count of "Sequence Errors" that is meant to show just that.
# What helps: judge losses by what the exporter counts as sent, or have no options data exported to this collector.
# Needs apt-get (Debian 12), dpkg and python3. Fails if the output is another one than below.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
apt-get download -q nfdump=1.7.1-2+deb12u1 > download.log 2>&1 || { cat download.log; exit 1; }
dpkg -x nfdump_*.deb root
cat > export.py <<'SCRIPT'
import socket
import struct
import sys

port, with_options = int(sys.argv[1]), sys.argv[2] == "yes"
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sequence = 0


def send(records, *sets):
    """A message with these sets, in which there are so many data records."""
    global sequence
    body = b"".join(struct.pack("!HH", number, 4 + len(content)) + content for number, content in sets)
    out.sendto(struct.pack("!HHIII", 10, 16 + len(body), 1700000000, sequence, 7) + body, ("127.0.0.1", port))
    sequence += records


# Two addresses, bytes and packets; and how many messages were sent, of an observation domain.
flow = struct.pack("!10H", 256, 4, 8, 4, 12, 4, 1, 8, 2, 8)
option = struct.pack("!7H", 257, 2, 1, 149, 4, 41, 8)
send(0, (2, flow), (3, option))
for number in range(4):
    send(1, (256, bytes([192, 0, 2, 1, 192, 0, 2, 2]) + struct.pack("!QQ", 1000, 1)))
    if with_options:
        send(1, (257, struct.pack("!IQ", 7, number)))
SCRIPT
collect() {
    mkdir "$1"
    root/usr/bin/nfcapd -p 49955 -b 127.0.0.1 -w "$1" -t 3600 > "$1.log" 2>&1 &
    collector=$!
    until grep -q Startup "$1.log"; do kill -0 $collector; sleep 0.1; done
    python3 export.py 49955 "$1"
    sleep 1
    kill $collector
    wait $collector || true
    echo "options data: $1; $(grep -o 'Flows: .*' "$1.log")"
}
{
    root/usr/bin/nfcapd -V | grep -o 'Version.*'
    collect no
    collect yes
} | tee output
diff output - <<'EXPECTED'
Version: 1.7.1
options data: no; Flows: 4, Packets: 4, Bytes: 4000, Sequence Errors: 0, Bad Packets: 0
options data: yes; Flows: 4, Packets: 4, Bytes: 4000, Sequence Errors: 3, Bad Packets: 0
EXPECTED
