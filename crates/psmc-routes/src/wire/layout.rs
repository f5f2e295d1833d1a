//! What the data of each type of record consists of: on the wire, and in zone files.

use hickory_proto::rr::RecordType;

/// A part of a record's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A number of one byte.
    U8,
    /// A number of two bytes.
    U16,
    /// A number of four bytes.
    U32,
    /// A time in seconds, for which zone files may have units (four bytes).
    Ttl,
    /// A moment (RFC 4034 §3.2, four bytes).
    Time,
    /// A type of records (two bytes).
    Type,
    /// An algorithm of DNSSEC (one byte).
    Algorithm,
    /// A kind of certificate (RFC 4398 §2.1, two bytes).
    CertificateKind,
    /// A name, whose case does not count (RFC 4034 §6.2).
    Name,
    /// A name whose case counts where data is compared or signed.
    CasedName,
    /// A text behind its length.
    Text,
    /// Texts behind their lengths, one or more, to the end.
    Texts,
    /// A text to the end, without a length.
    Rest,
    /// Bytes to the end; hexadecimal in files.
    Hex,
    /// Bytes to the end; base64 in files.
    Base64,
    /// Bytes behind their length; hexadecimal or `-` in files.
    Salt,
    /// Bytes behind their length; base32hex in files.
    Hash,
    /// Types of records to the end (RFC 4034 §4.1.2).
    Types,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// Eight bytes as four groups (RFC 6742 §2.1.2).
    Locator,
    /// So many bytes with hyphens between them (RFC 7043).
    Eui(u8),
    /// A place on Earth (RFC 1876).
    Location,
    /// Prefixes of addresses (RFC 3123).
    Prefixes,
    /// What follows the name in SVCB and HTTPS records (RFC 9460 §2.2).
    Parameters,
    /// Hexadecimal behind `0x` (RFC 1706).
    Nsap,
    /// A precedence, a gateway of the kind that is said, an algorithm, and a key (RFC 4025).
    Gateway,
    /// A discovery bit, a relay of the kind that is said (RFC 8777).
    AnycastRelay,
    /// A host identity (RFC 8005).
    HostIdentity,
}

/// The parts of the data of a type; `None` for types whose data is bytes like any other.
pub fn layout(kind: RecordType) -> Option<&'static [Field]> {
    use Field::{
        Algorithm, AnycastRelay, Base64, CasedName, CertificateKind, Eui, Gateway, Hash, Hex, HostIdentity,
        Ipv4, Ipv6, Location, Locator, Name, Nsap, Parameters, Prefixes, Rest, Salt, Text, Texts, Time, Ttl,
        Type, Types, U8, U16, U32,
    };
    Some(match u16::from(kind) {
        1 => &[Ipv4],
        28 => &[Ipv6],
        // NS, MD, MF, CNAME, MB, MG, MR, PTR, NSAP-PTR, DNAME
        2 | 3 | 4 | 5 | 7 | 8 | 9 | 12 | 23 | 39 => &[Name],
        // SOA
        6 => &[Name, Name, U32, Ttl, Ttl, Ttl, Ttl],
        // HINFO
        13 => &[Text, Text],
        // MINFO, RP
        14 | 17 => &[Name, Name],
        // MX, AFSDB, RT, KX
        15 | 18 | 21 | 36 => &[U16, Name],
        // TXT, X25, ISDN, SPF, NINFO, AVC, RESINFO, WALLET, CLA
        16 | 19 | 20 | 56 | 99 | 258 | 261 | 262 | 263 => &[Texts],
        // NSAP
        22 => &[Nsap],
        // SIG, RRSIG
        24 | 46 => &[Type, Algorithm, U8, Ttl, Time, Time, U16, Name, Base64],
        // KEY, DNSKEY, RKEY, CDNSKEY
        25 | 48 | 57 | 60 => &[U16, U8, Algorithm, Base64],
        // PX
        26 => &[U16, Name, Name],
        // GPOS
        27 => &[Text, Text, Text],
        29 => &[Location],
        // NXT: its types are a bitmap of another form, and nobody makes such records any longer.
        30 => &[Name, Hex],
        // SRV
        33 => &[U16, U16, U16, Name],
        // NAPTR
        35 => &[U16, U16, Text, Text, Text, Name],
        // CERT
        37 => &[CertificateKind, U16, Algorithm, Base64],
        // SINK
        40 => &[U8, U8, U8, Base64],
        // APL
        42 => &[Prefixes],
        // DS, TA, CDS, DLV
        43 | 59 | 32768 | 32769 => &[U16, Algorithm, U8, Hex],
        // SSHFP
        44 => &[U8, U8, Hex],
        45 => &[Gateway],
        // NSEC
        47 => &[CasedName, Types],
        // DHCID, OPENPGPKEY
        49 | 61 => &[Base64],
        // NSEC3
        50 => &[U8, U8, U16, Salt, Hash, Types],
        // NSEC3PARAM
        51 => &[U8, U8, U16, Salt],
        // TLSA, SMIMEA
        52 | 53 => &[U8, U8, U8, Hex],
        55 => &[HostIdentity],
        // TALINK
        58 => &[CasedName, CasedName],
        // CSYNC
        62 => &[U32, U16, Types],
        // ZONEMD
        63 => &[U32, U8, U8, Hex],
        // SVCB, HTTPS
        64 | 65 => &[U16, CasedName, Parameters],
        // DSYNC
        66 => &[Type, U8, U16, CasedName],
        // NID, L64
        104 | 106 => &[U16, Locator],
        // L32
        105 => &[U16, Ipv4],
        // LP
        107 => &[U16, CasedName],
        108 => &[Eui(6)],
        109 => &[Eui(8)],
        // URI
        256 => &[U16, U16, Rest],
        // CAA
        257 => &[U8, Text, Rest],
        // DOA
        259 => &[U32, U32, U8, Text, Base64],
        260 => &[AnycastRelay],
        _ => return None,
    })
}
