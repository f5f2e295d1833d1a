"""What dnspython makes of the server at 127.0.0.1: `reader.py SECRET COMMAND`, the answer as JSON."""

import json
import sys
import time

import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import dns.update
import dns.zone

SERVER = "127.0.0.1"
ZONE = "example.com."
ALT = 65400


def ask(name, kind, over):
    answer = over(dns.message.make_query(name, kind), SERVER, timeout=20)
    assert answer.rcode() == dns.rcode.NOERROR, answer
    return [rdata for rrset in answer.answer for rdata in rrset]


def read():
    """The routes of www, by UDP and by TCP, which must be the same."""
    read = []
    for over in (dns.query.udp, dns.query.tcp):
        alt = [rdata.to_generic().data.hex() for rdata in ask("www." + ZONE, ALT, over)]
        svcb = [
            {
                "priority": rdata.priority,
                "target": rdata.target.to_text(),
                "params": {str(int(key)): value.to_text() for key, value in rdata.params.items()},
            }
            for rdata in ask("_psmc.www." + ZONE, "SVCB", over)
        ]
        read.append({"alt": alt, "svcb": sorted(svcb, key=lambda record: record["priority"])})
    assert read[0] == read[1], read
    return read[0]


def transfer(keyring):
    """How many records the zone has, transferred with verified signatures of all messages."""
    messages = dns.query.xfr(SERVER, ZONE, keyring=keyring, keyname="up.", relativize=False, timeout=20)
    zone = dns.zone.from_xfr(messages, relativize=False)
    return sum(len(rdataset) for _, rdataset in zone.iterate_rdatasets())


def update(keyring, host):
    """The code of an update, or what is wrong with its signature."""
    change = dns.update.UpdateMessage(ZONE, keyring=keyring, keyname="up.")
    change.add(host, 60, "A", "203.0.113.9")
    try:
        return dns.rcode.to_text(dns.query.tcp(change, SERVER, timeout=20).rcode())
    except dns.tsig.PeerError as error:
        return type(error).__name__


def updates(keyring, secret):
    right = update(keyring, "right")
    wrong_secret = dns.tsigkeyring.from_text({"up.": "BBBB" + secret[4:]})
    spoilt = update(wrong_secret, "spoilt")
    now = time.time
    time.time = lambda: now() + 3600
    late = update(keyring, "late")
    return {"right": right, "spoilt": spoilt, "late": late}


def main(secret, command):
    keyring = dns.tsigkeyring.from_text({"up.": secret})
    commands = {
        "read": read,
        "transfer": lambda: transfer(keyring),
        "update": lambda: updates(keyring, secret),
    }
    print(json.dumps(commands[command]()))


main(*sys.argv[1:])
