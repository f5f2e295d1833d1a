use hickory_proto::rr::{Name, Record};
use proptest::prelude::*;

use super::read_zone_text;
use psmc_routes::wire::bytes_of;

fn read(text: &str) -> Result<Vec<Record>, (usize, String)> {
    read_zone_text(text.as_bytes(), &Name::from_ascii("example.test.").unwrap())
}

/// The data of a record of this text.
fn data(text: &str) -> Vec<u8> {
    let records = read(&format!("x 60 IN {text}")).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    bytes_of(&records[0].data)
}

fn ttls(text: &str) -> Vec<u32> {
    read(text).unwrap().iter().map(|record| record.ttl).collect()
}

fn names(text: &str) -> Vec<String> {
    read(text).unwrap().iter().map(|record| record.name.to_ascii()).collect()
}

#[test]
fn times_have_units_and_missing_ones_are_those_of_before() {
    assert_eq!(
        ttls("$TTL 1h\na A 192.0.2.1\nb 1d A 192.0.2.1\nc IN 1h30m A 192.0.2.1\nd 5 IN A 192.0.2.1"),
        [3600, 86400, 5400, 5]
    );
    assert_eq!(ttls("@ SOA ns h 1 6h 1h 1w 1d\nns A 192.0.2.1"), [86400, 86400]);
    assert_eq!(ttls("a 7 A 192.0.2.1\nb A 192.0.2.1\n$TTL 9\nc A 192.0.2.1"), [7, 7, 9]);
    assert!(read("a A 192.0.2.1").unwrap_err().1.contains("no TTL"));
    assert!(read("$TTL 1x\n").is_err() && read("$TTL 99999999999\n").is_err());
}

#[test]
fn lines_names_and_origins_are_as_they_are_written_by_hand() {
    let text = "\u{feff}$ORIGIN sub.example.test.\r\n$ttl 1\r\n@ in ns ( a ; comment )\r\n )\r\n  AAAA ::1\r\na\\.b A 192.0.2.1\r\n\
                c\\032d A 192.0.2.1;x\r\n$ORIGIN deep\r\n*.w A 192.0.2.1\r\nabs. A 192.0.2.1";
    let expected = [
        "sub.example.test.",
        "sub.example.test.",
        "a\\.b.sub.example.test.",
        "c\\032d.sub.example.test.",
        "*.w.deep.sub.example.test.",
        "abs.",
    ];
    let expected = expected.map(|name| name.replace("\\032", "\\040"));
    assert_eq!(names(text), expected, "the library writes octal numbers");
    for wrong in [
        "a..b 1 A 192.0.2.1",
        "a 1 A 192.0.2.1 x",
        "a 1 A",
        "(a 1 A 192.0.2.1",
        "a 1 TXT \"x",
        " 1 A 192.0.2.1",
        "a 1 CH A 192.0.2.1",
        "a 1 NOSUCH x",
        "a 1 TYPE250 \\# 0",
        "$NOSUCH",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert_eq!(read("$TTL 1\na A 192.0.2.1\n\nb A 192.0.2.256\n").unwrap_err().0, 4);
}

#[test]
fn generated_lines_are_many() {
    assert_eq!(
        names("$TTL 1\n$GENERATE 1-5/2 host$ A 192.0.2.$"),
        ["host1.example.test.", "host3.example.test.", "host5.example.test."]
    );
    let text =
        "$TTL 1\n$GENERATE 9-10 h${1,3}-${0,0,x} 5 IN MX \"10 m$\"\n$GENERATE 1-1 ${0,4,n} PTR \\$$.x.";
    assert_eq!(names(text), ["h010-9.example.test.", "h011-a.example.test.", "1.0.example.test."]);
    let records = read(text).unwrap();
    assert_eq!(bytes_of(&records[1].data), b"\0\x0a\x03m10\x07example\x04test\0");
    assert_eq!(bytes_of(&records[2].data), b"\x02$1\x01x\0");
    for wrong in [
        "2-1 a A 192.0.2.1",
        "0-4294967295 a A 192.0.2.1",
        "1-2/0 a A 192.0.2.1",
        "1-2 a",
        "1-2 ${x} A 192.0.2.1",
    ] {
        assert!(read(&format!("$TTL 1\n$GENERATE {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn parameters_are_the_bytes_that_are_meant() {
    let svcb = |parameters: &str| data(&format!("SVCB 1 . {parameters}"))[3..].to_vec();
    assert_eq!(svcb("alpn=h2,h3"), b"\0\x01\0\x06\x02h2\x02h3");
    assert_eq!(svcb("key1=\"\\002h2\""), svcb("alpn=\"h2\""));
    assert_eq!(svcb("alpn=\"f\\\\\\\\oo\\\\,bar,h2\""), b"\0\x01\0\x0c\x08f\\oo,bar\x02h2");
    assert_eq!(svcb("alpn=\"\\250\\250,h2\""), b"\0\x01\0\x06\x02\xfa\xfa\x02h2");
    assert_eq!(svcb("key9=\"\\000\\029\" port=53"), b"\0\x03\0\x02\0\x35\0\x09\0\x02\0\x1d");
    assert_eq!(
        svcb("mandatory=port,alpn ipv4hint=192.0.2.1,192.0.2.2 no-default-alpn"),
        b"\0\0\0\x04\0\x01\0\x03\0\x02\0\0\0\x04\0\x08\xc0\0\x02\x01\xc0\0\x02\x02"
    );
    assert_eq!(
        svcb("ipv6hint=::1 ech=AAE= dohpath=/q{?dns} key65409=x")[..8],
        b"\0\x05\0\x02\0\x01\0\x06"[..]
    );
    for wrong in
        ["alpn", "alpn=", "port=99999", "key01=x", "nosuch=1", "port=1 key3=\"\\000\\001\"", "ipv4hint=::1"]
    {
        assert!(read(&format!("x 1 SVCB 1 . {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn types_beyond_the_old_ones_are_read() {
    let cases: [(&str, &[u8]); 19] = [
        ("TYPE65400 \\# 0", b""),
        ("A \\# 4 c0000201", b"\xc0\0\x02\x01"),
        ("LOC 52 14 05 N 0 8 50 E 10m", b"\0\x12\x16\x13\x8b\x35\x56\xc8\x80\x08\x16\x50\0\x98\x9a\x68"),
        (
            "LOC 60 9 0.000 N 24 39 0.000 E 10.00m 20m 2000m 20m",
            b"\0\x23\x25\x23\x8c\xe8\x23\x60\x85\x4a\x10\xa0\0\x98\x9a\x68",
        ),
        ("URI 10 1 \"https://x/\"", b"\0\x0a\0\x01https://x/"),
        ("CAA 128 issue \"ca.example; a=b\"", b"\x80\x05issueca.example; a=b"),
        ("APL 1:192.168.32.0/21 !1:192.168.38.0/28", b"\0\x01\x15\x03\xc0\xa8\x20\0\x01\x1c\x83\xc0\xa8\x26"),
        ("CERT PKIX 1 RSASHA256 AAAA", b"\0\x01\0\x01\x08\0\0\0"),
        ("RP h a.b.", b"\x01h\x07example\x04test\0\x01a\x01b\0"),
        ("EUI48 00-00-5e-00-53-2a", b"\0\0\x5e\0\x53\x2a"),
        ("NID 10 0014:4fff:ff20:ee64", b"\0\x0a\0\x14\x4f\xff\xff\x20\xee\x64"),
        ("L32 10 10.1.2.0", b"\0\x0a\x0a\x01\x02\0"),
        (
            "NSEC a.b. A RRSIG TYPE65400",
            b"\x01a\x01b\0\0\x06\x40\0\0\0\0\x02\xff\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80",
        ),
        ("NSEC3PARAM 1 0 0 -", b"\x01\0\0\0\0"),
        ("IPSECKEY 10 1 2 192.0.2.38 AQM=", b"\x0a\x01\x02\xc0\0\x02\x26\x01\x03"),
        ("AMTRELAY 10 0 3 a.", b"\x0a\x03\x01a\0"),
        ("HIP 2 200100 AwE= a.", b"\x03\x02\0\x02\x20\x01\0\x03\x01\x01a\0"),
        ("NSAP 0x47.0005", b"\x47\0\x05"),
        ("NAPTR 100 10 \"-\" \"\" \"\" .", b"\0\x64\0\x0a\x01-\0\0\0"),
    ];
    for (text, bytes) in cases {
        assert_eq!(data(text), bytes, "{text}");
    }
    let rrsig = data("RRSIG A ED25519 2 1m 20260101000000 1767225600 7 example.test. AAAA");
    assert_eq!((&rrsig[..8], &rrsig[8..12]), (&b"\0\x01\x0f\x02\0\0\0\x3c"[..], &rrsig[12..16]));
    for wrong in [
        "A \\# 3 c00002",
        "X25",
        "TXT \\# 2 00",
        "LOC 91 N 0 E 0",
        "SSHFP 1 1 abc",
        "EUI48 00-00",
        "TYPE65400 abc",
        "SOA \\# 1 00",
        "MX \\# 2 0001",
    ] {
        assert!(read(&format!("x 1 {wrong}")).is_err(), "{wrong}");
    }
    assert!(read(&format!("x 1 TXT {}", "a".repeat(256))).is_err());
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in "[ -~\\n\\t]{0,200}") {
        let _ = read(&text);
        let _ = read(&format!("$TTL 1\nx {text}"));
        let _ = read(&format!("$TTL 1\nx SVCB 1 . {text}"));
        let _ = read(&format!("$TTL 1\n$GENERATE 1-3 {text}"));
    }
}
