//! The data of records in zone files.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::base::iana::SecurityAlgorithm;
use hickory_proto::rr::{Name, RData, RecordType};
use hickory_proto::serialize::binary::BinEncodable;

use super::entry::{kind_of, name, time};
use super::lexer::Word;
use super::{location, parameters};
use psmc_routes::wire::{Field, data_of, is_well_formed, layout};

/// The words of a record's data that are not read yet.
pub(super) struct Words<'a> {
    rest: &'a [Word],
    origin: &'a Name,
}

/// Reads the data of a record of this type.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(kind: RecordType, words: &[Word], origin: &Name) -> Result<RData, String> {
    let bytes = match words {
        [mark, length, hex @ ..] if !mark.is_quoted && mark.text == b"\\#" => unknown(length, hex)?,
        _ => {
            let fields = layout(kind).ok_or("data of this type is written as \\# LENGTH HEX (RFC 3597)")?;
            let (mut words, mut bytes) = (Words { rest: words, origin }, Vec::new());
            for field in fields {
                words.field(*field, &mut bytes)?;
            }
            if let [extra, ..] = words.rest {
                return Err(format!("{:?} is too much", String::from_utf8_lossy(&extra.text)));
            }
            bytes
        }
    };
    if bytes.len() > usize::from(u16::MAX) || !is_well_formed(kind, &bytes) {
        return Err("it is not as long as data of this type is".to_owned());
    }
    Ok(data_of(kind, bytes))
}

/// Data of whatever type as bytes (RFC 3597 §5).
fn unknown(length: &Word, hex: &[Word]) -> Result<Vec<u8>, String> {
    let bytes = hex_bytes(&joined(hex)?).ok_or("behind \\# and a length it takes hexadecimal digits")?;
    let length: Option<usize> = length.plain().and_then(|length| length.parse().ok());
    if length == Some(bytes.len()) {
        Ok(bytes)
    } else {
        Err(format!("\\# must be followed by the number of bytes, which is {}", bytes.len()))
    }
}

impl<'a> Words<'a> {
    /// The next word.
    pub(super) fn next(&mut self) -> Result<&'a Word, String> {
        let (word, rest) = self.rest.split_first().ok_or("there is not enough of it")?;
        self.rest = rest;
        Ok(word)
    }

    /// All that are left.
    pub(super) fn all(&mut self) -> &'a [Word] {
        std::mem::take(&mut self.rest)
    }

    /// Reads one part of the data.
    fn field(&mut self, field: Field, out: &mut Vec<u8>) -> Result<(), String> {
        match field {
            Field::U8 => out.push(self.number()?),
            Field::U16 => out.extend(self.number::<u16>()?.to_be_bytes()),
            Field::U32 => out.extend(self.number::<u32>()?.to_be_bytes()),
            Field::Ttl => out.extend(time(self.next()?).ok_or("it takes a time")?.to_be_bytes()),
            Field::Time => out.extend(moment(self.plain()?).ok_or("it takes YYYYMMDDHHmmSS")?.to_be_bytes()),
            Field::Type => out.extend(kind_bytes(self.next()?)?),
            Field::Algorithm => out.push(algorithm(self.plain()?).ok_or("this is no algorithm of DNSSEC")?),
            Field::CertificateKind => {
                let kind = certificate_kind(self.plain()?).ok_or("this is no kind of certificate")?;
                out.extend(kind.to_be_bytes());
            }
            Field::Name | Field::CasedName => self.name(out)?,
            Field::Text => push_text(&self.text()?, out)?,
            Field::Texts => {
                push_text(&self.text()?, out)?;
                while !self.rest.is_empty() {
                    push_text(&self.text()?, out)?;
                }
            }
            Field::Rest => out.extend(self.text()?),
            Field::Hex => out.extend(hex_bytes(&joined(self.all())?).ok_or(NO_HEX)?),
            Field::Base64 => out.extend(base64_bytes(self.all())?),
            Field::Salt => match self.plain()? {
                "-" => out.push(0),
                salt => push_text(&hex_bytes(salt).ok_or(NO_HEX)?, out)?,
            },
            Field::Hash => push_text(&base32_bytes(self.plain()?).ok_or("it takes base32")?, out)?,
            Field::Types => types(self.all(), out)?,
            Field::Ipv4 => out.extend(self.parsed::<Ipv4Addr>("it takes an IPv4 address")?.octets()),
            Field::Ipv6 => out.extend(self.parsed::<Ipv6Addr>("it takes an IPv6 address")?.octets()),
            Field::Locator => {
                let groups = self.plain()?.split(':').map(|group| u16::from_str_radix(group, 16));
                let groups: Vec<u16> = groups.collect::<Result<_, _>>().map_err(|_| NO_GROUPS)?;
                let groups: [u16; 4] = groups.try_into().map_err(|_| NO_GROUPS)?;
                out.extend(groups.iter().flat_map(|group| group.to_be_bytes()));
            }
            Field::Eui(length) => {
                let digits = self.plain()?.replace('-', "");
                let bytes = hex_bytes(&digits).filter(|bytes| bytes.len() == usize::from(length));
                out.extend(bytes.ok_or("it takes pairs of hexadecimal digits with hyphens between them")?);
            }
            Field::Location => {
                out.extend(location::read(self.all()).ok_or("it takes a place as in RFC 1876")?)
            }
            Field::Prefixes => prefixes(self.all(), out)?,
            Field::Parameters => parameters::read(self.all(), out)?,
            Field::Nsap => {
                let text = self.plain()?.replace('.', "");
                let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
                out.extend(digits.and_then(hex_bytes).ok_or("it takes 0x and hexadecimal digits")?);
            }
            Field::Gateway => self.gateway(out)?,
            Field::AnycastRelay => self.anycast_relay(out)?,
            Field::HostIdentity => self.host_identity(out)?,
        }
        Ok(())
    }

    fn plain(&mut self) -> Result<&'a str, String> {
        let word = self.next()?;
        word.plain().ok_or_else(|| format!("{:?} is invalid", String::from_utf8_lossy(&word.text)))
    }

    fn text(&mut self) -> Result<Vec<u8>, String> {
        self.next()?.bytes().ok_or_else(|| "an escape is wrong".to_owned())
    }

    fn parsed<T: FromStr>(&mut self, otherwise: &str) -> Result<T, String> {
        self.plain()?.parse().map_err(|_| otherwise.to_owned())
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let text = self.plain()?;
        text.parse().map_err(|_| format!("{text:?} is no number, or too large a one"))
    }

    fn name(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let name = name(self.next()?, self.origin)?;
        out.extend(name.to_bytes().map_err(|error| error.to_string())?);
        Ok(())
    }

    /// IPSECKEY (RFC 4025 §3).
    fn gateway(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(self.number()?);
        let kind = self.number()?;
        out.extend([kind, self.number()?]);
        self.host(kind, out)?;
        out.extend(base64_bytes(self.all())?);
        Ok(())
    }

    /// AMTRELAY (RFC 8777 §4.2).
    fn anycast_relay(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(self.number()?);
        let discovery: u8 = self.number()?;
        let kind: u8 = self.number()?;
        if discovery > 1 || kind > 0x7f {
            return Err("the discovery bit is 0 or 1".to_owned());
        }
        out.push(discovery << 7 | kind);
        self.host(kind, out)
    }

    /// None, an IPv4 address, an IPv6 address, or a name.
    fn host(&mut self, kind: u8, out: &mut Vec<u8>) -> Result<(), String> {
        match kind {
            0 if self.plain()? == "." => Ok(()),
            1 => self.field(Field::Ipv4, out),
            2 => self.field(Field::Ipv6, out),
            3 => self.name(out),
            _ => Err("the gateway is not of the kind that is said".to_owned()),
        }
    }

    /// HIP (RFC 8005 §5).
    fn host_identity(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let algorithm: u8 = self.number()?;
        let identity = hex_bytes(self.plain()?).ok_or(NO_HEX)?;
        let key = STANDARD.decode(self.plain()?).map_err(|_| NO_BASE64)?;
        out.push(u8::try_from(identity.len()).map_err(|_| "the identity is too long")?);
        out.push(algorithm);
        out.extend(u16::try_from(key.len()).map_err(|_| "the key is too long")?.to_be_bytes());
        out.extend(identity);
        out.extend(key);
        while !self.rest.is_empty() {
            self.name(out)?;
        }
        Ok(())
    }
}

/// A text behind its length.
pub(super) fn push_text(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let length = u8::try_from(text.len()).map_err(|_| "a text has 255 bytes at most: write several")?;
    out.push(length);
    out.extend(text);
    Ok(())
}

/// Words as one, as long hexadecimal and base64 are written in several.
fn joined(words: &[Word]) -> Result<String, String> {
    words.iter().map(|word| word.plain().ok_or_else(|| "it contains an invalid byte".to_owned())).collect()
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs
        .map(|pair| {
            pair.filter(|pair| !pair.starts_with('+')).and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect()
}

/// The base64 of all words.
fn base64_bytes(words: &[Word]) -> Result<Vec<u8>, String> {
    STANDARD.decode(joined(words)?).map_err(|_| NO_BASE64.to_owned())
}

/// Base32 with the extended hexadecimal alphabet and without padding (RFC 4648 §7).
fn base32_bytes(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.chars() {
        bits = (bits << 5 | digit.to_digit(32)?) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// Windows of types that are there (RFC 4034 §4.1.2).
fn types(words: &[Word], out: &mut Vec<u8>) -> Result<(), String> {
    let mut windows: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for word in words {
        let [window, place] = kind_bytes(word)?;
        let bitmap = windows.entry(window).or_default();
        let byte = usize::from(place / 8);
        if bitmap.len() <= byte {
            bitmap.resize(byte + 1, 0);
        }
        bitmap[byte] |= 0x80 >> (place % 8);
    }
    for (window, bitmap) in windows {
        out.push(window);
        push_text(&bitmap, out)?;
    }
    Ok(())
}

fn kind_bytes(word: &Word) -> Result<[u8; 2], String> {
    let kind =
        kind_of(word).ok_or_else(|| format!("{:?} is no type", String::from_utf8_lossy(&word.text)))?;
    Ok(u16::from(kind).to_be_bytes())
}

/// Prefixes (RFC 3123 §4): `!` for one that is excluded, the family, the address, its length.
fn prefixes(words: &[Word], out: &mut Vec<u8>) -> Result<(), String> {
    for word in words {
        let bytes = word.plain().and_then(prefix);
        out.extend(bytes.ok_or("it takes prefixes such as 1:192.0.2.0/24 or !2:2001:db8::/32")?);
    }
    Ok(())
}

fn prefix(text: &str) -> Option<Vec<u8>> {
    let (is_excluded, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
    let (family, rest) = text.split_once(':')?;
    let (address, length) = rest.split_once('/')?;
    let (family, mut address, most): (u16, Vec<u8>, u8) = match family.parse().ok()? {
        1 => (1, address.parse::<Ipv4Addr>().ok()?.octets().to_vec(), 32),
        2 => (2, address.parse::<Ipv6Addr>().ok()?.octets().to_vec(), 128),
        _ => return None,
    };
    let length: u8 = length.parse().ok().filter(|length| *length <= most)?;
    // Zeros at the end are left out.
    while address.last() == Some(&0) {
        address.pop();
    }
    let mut bytes = family.to_be_bytes().to_vec();
    bytes.extend([length, u8::from(is_excluded) << 7 | u8::try_from(address.len()).ok()?]);
    bytes.extend(address);
    Some(bytes)
}

/// A moment, as a date or in seconds since 1970.
fn moment(text: &str) -> Option<u32> {
    if text.len() != 14 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u8>().ok();
    let month = time::Month::try_from(number(4..6)?).ok()?;
    let date = time::Date::from_calendar_date(text[..4].parse().ok()?, month, number(6..8)?).ok()?;
    let time = time::Time::from_hms(number(8..10)?, number(10..12)?, number(12..14)?).ok()?;
    let seconds = time::PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp();
    // The number wraps around in 2106 (RFC 4034 §3.1.5).
    u32::try_from(seconds.rem_euclid(1 << 32)).ok()
}

fn algorithm(text: &str) -> Option<u8> {
    text.parse().ok().or_else(|| {
        SecurityAlgorithm::from_mnemonic(text.to_ascii_uppercase().as_bytes()).map(SecurityAlgorithm::to_int)
    })
}

fn certificate_kind(text: &str) -> Option<u16> {
    let known = [
        ("PKIX", 1),
        ("SPKI", 2),
        ("PGP", 3),
        ("IPKIX", 4),
        ("ISPKI", 5),
        ("IPGP", 6),
        ("ACPKIX", 7),
        ("IACPKIX", 8),
        ("URI", 253),
        ("OID", 254),
    ];
    let found = known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, number)| number).or_else(|| text.parse().ok())
}

const NO_HEX: &str = "it takes hexadecimal digits, two for each byte";
const NO_BASE64: &str = "it takes base64";
const NO_GROUPS: &str = "it takes four groups of hexadecimal digits";
