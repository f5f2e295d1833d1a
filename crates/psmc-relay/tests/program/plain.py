"""The packets of plain.rs, made by scapy: what an end sends, and what must come out, bit by bit.

Each line is a case: its name, the end that sends, its packet, the end that receives, and the packets there. All identifications
that the relay's kernel gives to outer headers without DF are 0 here; the test takes them out.
"""

from scapy.all import ICMP, IP, IPOption_NOP, IPOption_RR, TCP, UDP, Raw, fragment, raw

LEFT, RELAY_LEFT = "203.0.113.5", "203.0.113.1"
RIGHT, RELAY_RIGHT = "192.0.2.7", "198.51.100.1"
A, B = "10.1.0.1", "10.2.0.9"


def from_left(inner, **outer):
    return IP(src=LEFT, dst=RELAY_LEFT, proto=4, id=77, ttl=33, **outer) / inner


def from_right(inner, **outer):
    return IP(src=RIGHT, dst=RELAY_RIGHT, proto=4, id=78, ttl=250, **outer) / inner


def out(source, destination, inner):
    """As RFC 2003 has it: TOS and DF of the inner packet, a TTL of its own."""
    header = IP(raw(inner))
    return IP(src=source, dst=destination, proto=4, id=0, tos=header.tos, flags=header.flags & 2) / inner


def to_right(inner):
    packet = out(RELAY_RIGHT, RIGHT, inner)
    # The relay sends it with 64, and there is a router on the way.
    packet.ttl = 63
    return packet


def to_left(inner):
    packet = out(RELAY_LEFT, LEFT, inner)
    packet.ttl = 64
    return packet


def error(kind, code, mtu, about, to, relay):
    header = IP(src=relay, dst=to, tos=0xC0, ttl=64, id=0, flags="DF")
    return header / ICMP(type=kind, code=code, nexthopmtu=mtu) / Raw(raw(about)[:548])


def one_less(packet):
    packet = packet.copy()
    packet.ttl -= 1
    return packet


def case(name, sender, packet, receiver, *expected):
    print(name, sender, raw(packet).hex(), receiver, *(raw(packet).hex() for packet in expected))


def udp(length, **ip):
    return IP(src=A, dst=B, **ip) / UDP(sport=1000, dport=2000) / Raw(bytes(n % 251 for n in range(length)))


plain = udp(100, flags="DF", tos=0xB8, ttl=17, id=1)
case("udp", "left", from_left(plain, flags="DF"), "right", to_right(one_less(plain)))
answer = IP(src=B, dst=A, ttl=200, id=2) / UDP(sport=2000, dport=1000) / Raw(b"odd")
case("answer", "right", from_right(answer), "left", to_left(one_less(answer)))
marked = udp(10, tos=0x2A, ttl=64, id=3)
seen = one_less(marked)
seen.tos = 0x2B
case("congestion", "left", from_left(marked, tos=0x2B), "right", to_right(seen))
options = IP(src=A, dst=B, ttl=9, id=4, options=[IPOption_NOP(), IPOption_RR(length=7, routers=["10.1.0.254"])])
options = options / UDP(sport=1, dport=2) / Raw(b"options")
case("options", "left", from_left(options), "right", to_right(one_less(options)))
piece = IP(src=A, dst=B, ttl=9, id=5, flags="MF", frag=20, proto=17) / Raw(b"a piece!")
case("piece", "left", from_left(piece), "right", to_right(one_less(piece)))
syn = IP(src=A, dst=B, ttl=64, id=6, flags="DF") / TCP(sport=5, dport=80, flags="S", seq=7)
case("tcp", "left", from_left(syn), "right", to_right(one_less(syn)))
nested = IP(src=A, dst=B, ttl=64, id=7) / IP(src="1.2.3.4", dst="5.6.7.8") / UDP()
case("nested", "left", from_left(nested), "right", to_right(one_less(nested)))

expired = udp(700, ttl=1, id=8)
case("expired", "left", from_left(expired), "left", to_left(error(11, 0, 0, expired, A, RELAY_LEFT)))

# A router on the way takes 1000 bytes, and says so; it quotes 548 bytes, of which the outer header are 20. The relay says
# by which of its addresses the router knows it.
long = udp(1300, ttl=64, id=9, flags="DF")
heard = raw(one_less(long))[:528]
case("narrow", "left", from_left(long), "left", to_left(error(3, 4, 980, heard, A, RELAY_RIGHT)))
# Then the relay knows.
case("known", "left", from_left(long), "left", to_left(error(3, 4, 980, one_less(long), A, RELAY_LEFT)))
cut = udp(1300, ttl=64, id=10)
pieces = [to_right(piece) for piece in fragment(IP(raw(one_less(cut))), fragsize=960)]
case("cut", "left", from_left(cut), "right", *pieces)
