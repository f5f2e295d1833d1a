//! Zones with records of all kinds, the same in each run.

use std::fmt::Write as _;

/// Numbers that look random (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(super) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// So many bytes as hexadecimal digits.
    fn hex(&mut self, count: usize) -> String {
        (0..count).map(|_| format!("{:02x}", self.below(256))).collect()
    }

    /// A text between quotation marks, of whatever bytes.
    fn text(&mut self) -> String {
        let count = self.of(&[0, 1, 5, 20, 255]);
        let byte = |random: &mut Self| match random.below(4) {
            0 => format!("\\{:03}", random.below(256)),
            1 => random.of(&["\\\"", "\\\\", ";", " ", "(", "@", "$"]).to_owned(),
            _ => random.of(&["a", "B", "7", "-", "="]).to_owned(),
        };
        format!("\"{}\"", (0..count).map(|_| byte(self)).collect::<String>())
    }

    /// A name, relative or absolute, in whatever case.
    fn name(&mut self) -> String {
        self.of(&[
            "www",
            "WwW",
            "mail.sub",
            "a.very.deep.name.here",
            "_x._tcp",
            "ns",
            "@",
            ".",
            "Host.Example.ORG.",
            "sp\\032ace",
            "dot\\.ted",
            "high\\255",
            "x\\000y",
            "other.example.",
        ])
        .to_owned()
    }
}

/// A zone.
pub(super) struct Sample {
    pub(super) origin: String,
    pub(super) text: String,
    /// How `dnssec-signzone` is to sign it.
    pub(super) signing: Option<Vec<&'static str>>,
}

/// The zone of this number.
pub(super) fn sample(number: usize, is_signed: bool) -> Sample {
    let mut random = Random(number as u64);
    let mut text = format!(
        "$TTL {}\n@ SOA ns Admin\\.Of.{} ( {} 1h 10m\n 1w 5m ) ; numbers\n@ NS ns\n@ NS Ns2.Example.ORG.\nns A 127.0.0.1\n",
        random.of(&["300", "1h", "1d2h"]),
        random.of(&["zone", "ZONE"]),
        random.below(4_000_000_000),
    );
    // Names that delegate, move, or stand for others, and what is below them.
    if random.below(2) == 0 {
        text += "sub NS ns.sub\nsub NS ns.Elsewhere.\nns.sub A 192.0.2.53\n";
    }
    match random.below(4) {
        0 => text += "old DNAME New\nx.new A 192.0.2.1\n*.new TXT \"wild\"\n",
        1 => text += "old DNAME Example.ORG.\nold TXT \"beside\"\n",
        _ => {}
    }
    text += random.of(&[
        "*.w A 192.0.2.7\n",
        "* TXT \"all\"\n",
        "*.w CNAME www\nx.w MX 1 w\n",
        "deep.er.and.er A 192.0.2.1\n",
        "",
    ]);
    text += random.of(&[
        "alias CNAME www\n",
        "alias CNAME alias2\nalias2 CNAME nowhere\n",
        "alias CNAME x.sub\n",
        "alias CNAME a.old\n",
        "",
    ]);
    if number.is_multiple_of(3) {
        text += "$GENERATE 1-3 gen$ A 192.0.2.$\n$GENERATE 0-4/2 ${0,2,x}.g PTR h${1}.\n";
    }
    for place in 0..8 {
        let owner = match random.below(6) {
            0 => format!("{}{place}", random.of(&["www", "Mixed", "_srv._udp", "x-y", "under_score"])),
            1 => format!("esc\\{:03}{place}", random.below(256)),
            2 => format!("{}{place}.ent.ry", "l".repeat(62)),
            3 => format!("h{place}.{}.{}", random.below(9), random.below(9)),
            _ => format!("h{place}"),
        };
        writeln!(text, "{owner} {}", record(&mut random)).unwrap();
        if random.below(3) == 0 {
            writeln!(text, "\t{}", record(&mut random)).unwrap();
        }
    }
    // The last line has no end.
    let text = text.trim_end().to_owned() + if is_signed { "\n" } else { "" };
    let signing = is_signed.then(|| match number % 4 {
        0 => vec!["-3", "-", "-H", "0"],
        1 => vec!["-3", "aabb", "-H", "3"],
        2 => vec!["-3", "-", "-H", "0", "-A"],
        _ => vec![],
    });
    Sample { origin: format!("z{number}.diff"), text, signing }
}

/// Parts of which data is made.
struct Parts {
    number: usize,
    small: usize,
    name: String,
    one: String,
    other: String,
    hex: String,
    base64: &'static str,
}

/// The type and data of a record.
fn record(random: &mut Random) -> String {
    let count = random.of(&[1, 2, 20, 60]);
    let parts = Parts {
        number: random.below(65_536),
        small: random.below(256),
        name: random.name(),
        one: random.text(),
        other: random.text(),
        hex: random.hex(count),
        base64: random.of(&["AAAA", "AwEAAQ==", "//79 /A==", "q8c="]),
    };
    match random.below(62) {
        which @ 0..31 => older(which, &parts, random),
        which => newer(which, &parts, random),
    }
}

fn older(which: usize, parts: &Parts, random: &mut Random) -> String {
    let Parts { number, small, name, one, other, hex, base64 } = parts;
    match which {
        0 => format!("A 192.0.2.{small}"),
        1 => format!("AAAA 2001:db8::{number:x}"),
        2 => format!("TXT {one} {other}"),
        3 => "TXT unquoted words".to_owned(),
        4 => format!("MX {number} {name}"),
        5 => format!("SRV {number} {small} {number} {name}"),
        6 => format!("CAA {small} {} {one}", random.of(&["issue", "iodef", "x9"])),
        7 => format!("HINFO {one} {other}"),
        8 => format!("NAPTR {number} {small} {} {one} \"\" {name}", random.of(&["\"\"", "\"u\"", "\"S\""])),
        9 => format!("RP {name} {}", random.name()),
        10 => format!("AFSDB {number} {name}"),
        11 => format!(
            "LOC {} {} {}.{small} {} 13 {} -{small}.50m 10m 20m",
            random.below(90),
            random.below(60),
            random.below(60),
            random.of(&["N", "S"]),
            random.of(&["E", "W"])
        ),
        12 => "LOC 52 14 05 N 0 8 50 E 10m".to_owned(),
        13 => format!("SSHFP 2 2 {}", random.hex(32)),
        14 => format!("TLSA 3 1 1 {}", random.hex(32)),
        15 => format!("SMIMEA {small} 0 0 {hex}"),
        16 => format!("URI {number} {small} \"https://x{small}/\""),
        17 => format!(
            "CERT {} {number} {} {base64}",
            random.of(&["PKIX", "PGP", "65"]),
            random.of(&["RSASHA256", "8", "0"])
        ),
        18 => format!("PTR {name}"),
        19 => format!("OPENPGPKEY {base64}"),
        20 => format!("SPF {one}"),
        21 => format!("EUI48 00-11-22-33-44-{small:02x}"),
        22 => format!("EUI64 00-11-22-33-44-55-66-{small:02x}"),
        23 => format!("NID {number} 14:4fff:ff20:{number:x}"),
        24 => format!("L64 {number} 2001:db8:1140:{number:x}"),
        25 => format!("L32 {number} 10.1.2.{small}"),
        26 => format!("LP {number} {name}"),
        27 => format!("APL 1:192.0.2.{small}/32 !1:10.0.0.0/8 2:2001:db8::/{}", random.below(129)),
        28 => "APL".to_owned(),
        29 => format!("DHCID {base64}"),
        _ => format!("KX {number} {name}"),
    }
}

fn newer(which: usize, parts: &Parts, random: &mut Random) -> String {
    let Parts { number, small, name, one, base64, .. } = parts;
    match which {
        31 => format!("PX {number} {name} {}", random.name()),
        32 => "X25 311061700956".to_owned(),
        33 => format!("ISDN \"15086{number}\" {}", random.of(&["", "004"])),
        34 => format!("RT {number} {name}"),
        35 => format!("NSAP 0x47.0005.{}", random.hex(6)),
        36 => format!("GPOS -22.6882 116.{small} 250.0"),
        37 => format!("MINFO {name} {}", random.name()),
        38 => format!("{} {name}", random.of(&["MB", "MG", "MR", "NSAP-PTR"])),
        39 => format!("TALINK {name} {}", random.name()),
        40 => format!("NINFO {one}"),
        41 => format!("RKEY 0 3 8 {base64}"),
        42 => format!("CSYNC {number} 3 A NS AAAA TYPE{number}"),
        43 => format!("HIP 2 {} {} {}", random.hex(16), "AwEAAQ==", name),
        44 => format!("IPSECKEY {small} {} 2 {} {base64}", 1, "192.0.2.38"),
        45 => format!("IPSECKEY {small} 3 2 {} AwEAAQ==", "Gate.Way.example."),
        46 => format!("AMTRELAY {small} {} 2 2001:db8::{number:x}", *small % 2),
        47 => format!("AMTRELAY {small} 0 3 Relay.example."),
        48 => format!("DS {number} 13 2 {}", random.hex(32)),
        49 => format!("DLV {number} 8 2 {}", random.hex(32)),
        50 => format!("KEY 256 3 8 {base64}"),
        51 => format!("DOA {number} {small} 3 \"text/plain\" {base64}"),
        52 => format!("AVC {one}"),
        53 => format!("SINK {small} 0 1 {base64}"),
        54 => {
            format!("SVCB {} {} {}", (*number).max(1), random.of(&[".", "Gw.Example."]), parameters(random))
        }
        55 => format!("HTTPS {} . {}", (*number).max(1), parameters(random)),
        56 => format!("HTTPS 0 {}", random.of(&["Gw.Example.", "www"])),
        // Of types that nobody knows, and with data that is none.
        57 | 58 => {
            let kind = random.of(&[4_711, 65_280, 65_305, 65_400, 65_534, 1_000, 112]);
            let length = random.of(&[0, 1, 3, 100]);
            format!("TYPE{kind} \\# {length} {}", random.hex(length))
        }
        59 => format!("TYPE{} \\# 4 c00002{small:02x}", 1),
        60 => format!("NULL \\# 3 {}", random.hex(3)),
        _ => format!("ZONEMD {number} 1 1 {}", random.hex(48)),
    }
}

/// Parameters of SVCB and HTTPS records, as themselves and as numbers.
fn parameters(random: &mut Random) -> String {
    let all = [
        &[
            "alpn=h2",
            "alpn=\"h2,h3\"",
            "key1=\"\\002h2\"",
            "alpn=\"\\250\\250,h2\"",
            "alpn=\"f\\\\\\\\oo,x\"",
            "",
        ][..],
        &["port=53", "key3=\"\\032\\251\"", ""],
        &["ipv4hint=192.0.2.1,192.0.2.2", "key4=\"\\192\\000\\002\\001\"", ""],
        &["ech=AEX+DQBB", ""],
        &["ipv6hint=2001:db8::1", ""],
        &["key7=\"/q{?dns}\"", ""],
        &["key9=\"\\000\\029\"", ""],
        &["key65409=x", "key65409", "key700=\"a b;c\\\"\\255\"", ""],
    ];
    all.iter().map(|choices| random.of(choices)).collect::<Vec<_>>().join(" ")
}
