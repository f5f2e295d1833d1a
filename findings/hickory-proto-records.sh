#!/usr/bin/env bash
# hickory-proto 0.26.3 (crates.io), beside domain 0.12.3:
#  1. it writes and reads escapes in names as octal numbers: a space is written `\040`, and `a\032b` is no name to it.
#     RFC 1035 section 5.1 has decimal numbers: BIND writes `\032`, `domain` a backslash and the space, and both read both.
#  2. it refuses a whole message for one valid record that it does not understand: a record of an unknown type without data
#     (RFC 3597 section 3: data is of any length), and a HTTPS record with an ALPN id that is not UTF-8 (RFC 7301 section 3.1: ids
#     are bytes; RFC 8701 has clients send such ones). `domain` reads both.
# What it means for a user: one such record in a zone keeps a secondary from having the zone, and a resolver from giving the answer.
# Needs cargo and a C linker. Fails if the output is another one than below.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "finding"
version = "0.0.0"
edition = "2021"
[dependencies]
hickory-proto = { version = "=0.26.3", default-features = false, features = ["std"] }
domain = { version = "=0.12.3", default-features = false, features = ["std"] }
[workspace]
TOML
cat > src/main.rs <<'RUST'
use domain::base::{Message as Parsed, Name as DomainName, ParsedName};
use domain::rdata::AllRecordData;
use hickory_proto::op::Message;
use hickory_proto::rr::Name;

/// A response with one answer: x. IN, TTL 60, of this type, with this data.
fn response(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, b'x', 0];
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1, 0, 0, 0, 60]);
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn main() {
    let hickory = Name::from_labels([&b"a b"[..], b"example"]).unwrap();
    let domain = DomainName::from_slice(b"\x03a b\x07example\0").unwrap();
    println!("written: hickory-proto {} domain {domain}", hickory.to_ascii());
    let read = Name::from_ascii("a\\032b.example.").map_err(|error| error.to_string());
    println!("read: hickory-proto {read:?} domain {:?}", "a\\032b.example.".parse::<DomainName<Vec<u8>>>().is_ok());
    for (what, kind, data) in [
        ("TYPE65535 without data", 65535, &b""[..]),
        ("HTTPS 1 . alpn=\"\\250\\250,h2\"", 65, b"\0\x01\0\0\x01\0\x06\x02\xfa\xfa\x02h2"),
    ] {
        let bytes = response(kind, data);
        let hickory = Message::from_vec(&bytes).map(|_| "read").map_err(|error| error.to_string());
        let parsed = Parsed::from_octets(&bytes[..]).unwrap();
        let record = parsed.answer().unwrap().next().unwrap().unwrap();
        let domain = record.to_any_record::<AllRecordData<&[u8], ParsedName<&[u8]>>>().is_ok();
        println!("{what}: hickory-proto {hickory:?} domain {domain}");
    }
}
RUST
cargo run --quiet 2>/dev/null > seen
cat seen
diff - seen <<'SEEN'
written: hickory-proto a\040b.example. domain a\ b.example
read: hickory-proto Err("Malformed label: a\u{1a}b") domain true
TYPE65535 without data: hickory-proto Err("unexpected record with length 0 in non-update message") domain true
HTTPS 1 . alpn="\250\250,h2": hickory-proto Err("invalid UTF-8: invalid utf-8 sequence of 1 bytes from index 0") domain true
SEEN
echo "as it was seen"
