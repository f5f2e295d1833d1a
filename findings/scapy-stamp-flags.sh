#!/usr/bin/env bash
# scapy 2.8.0, `scapy.contrib.stamp`: the flags of a STAMP extension (TLV) are read and written from the wrong end of their octet.
# RFC 8972 §4 has U (unrecognised), M (malformed) and I (integrity) in its first, most significant bits, 0x80, 0x40 and 0x20, and a
# Session-Sender sets U in all that it sends. scapy names bits from the least significant one on, and its list of names stands as the
# RFC draws them. So `STAMPTestTLV(flags="U")` is sent as 0x01, which is a reserved bit; what arrives with U (0x80) is shown as R, and
# neither U nor M nor I of a real packet can be told by name. All that stands around the flags is read right.
# What it means for a user: a test that asks scapy whether a reflector knows an extension passes whatever the reflector says, and a
# sender made with scapy tells reflectors nothing by U.
# What helps: give flags as numbers (`flags=0x80`), and compare with `int(tlv.flags) & 0x80`.
# Needs python3 with venv, and pip's index. Fails if the output is another one than below.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv environment
environment/bin/pip install -q --disable-pip-version-check scapy==2.8.0
cat > flags.py <<'SCRIPT'
import scapy
from scapy.contrib.stamp import STAMPSessionSenderTestUnauthenticated as Packet, STAMPTestTLV as Extension
from scapy.packet import raw

print("scapy", scapy.__version__)
for name in "UMI":
    print(f"flags={name!r} is sent as {raw(Extension(flags=name))[0]:#04x}")
question = bytes.fromhex("00000007" "0000000000000000" "8001" "0000") + bytes(28)
for bits in (0x80, 0x40, 0x20, 0x01):
    # Extra Padding (RFC 8972 §4.1), four octets of it.
    packet = Packet(question + bytes([bits, 1, 0, 4]) + bytes(4))
    extension = packet.tlv_objects[0]
    print(f"{bits:#04x} is read as {extension.flags!s}, number {packet.seq}, {extension.len} octets of type {extension.type}")
SCRIPT
environment/bin/python flags.py | tee output
diff output - <<'EXPECTED'
scapy 2.8.0
flags='U' is sent as 0x01
flags='M' is sent as 0x02
flags='I' is sent as 0x04
0x80 is read as R, number 7, 4 octets of type 1
0x40 is read as R, number 7, 4 octets of type 1
0x20 is read as R, number 7, 4 octets of type 1
0x01 is read as U, number 7, 4 octets of type 1
EXPECTED
