//! The parameters of SVCB and HTTPS records (RFC 9460 §2.1, appendix A).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::data::push_text;
use super::lexer::{Word, split_escape, unescaped};

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;
const OHTTP: u16 = 8;

/// Reads `key=value` words. A key that is written `keyNNN` has its bytes as value, whatever the key means.
pub(super) fn read(words: &[Word], out: &mut Vec<u8>) -> Result<(), String> {
    let mut parameters: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for word in words {
        let place = word.text.iter().position(|byte| *byte == b'=');
        let (key, value) = word.text.split_at(place.unwrap_or(word.text.len()));
        let value = value.strip_prefix(b"=").unwrap_or_default();
        let shown = String::from_utf8_lossy(key);
        let (number, is_named) = key_of(&shown).ok_or_else(|| format!("{shown:?} is no parameter"))?;
        let read = if is_named { named(number, value) } else { unescaped(value) };
        let bytes = read.ok_or_else(|| format!("the value of {shown} is wrong"))?;
        if parameters.insert(number, bytes).is_some() {
            return Err(format!("{shown} is there twice"));
        }
    }
    for (key, value) in parameters {
        out.extend(key.to_be_bytes());
        out.extend(u16::try_from(value.len()).map_err(|_| "a value is too long")?.to_be_bytes());
        out.extend(value);
    }
    Ok(())
}

/// A key's number, and whether it was written as a name.
fn key_of(text: &str) -> Option<(u16, bool)> {
    let known = [
        ("mandatory", MANDATORY),
        ("alpn", ALPN),
        ("no-default-alpn", NO_DEFAULT_ALPN),
        ("port", PORT),
        ("ipv4hint", IPV4_HINT),
        ("ech", ECH),
        ("ipv6hint", IPV6_HINT),
        ("dohpath", DOH_PATH),
        ("ohttp", OHTTP),
    ];
    let text = text.to_ascii_lowercase();
    if let Some((_, number)) = known.into_iter().find(|(name, _)| *name == text) {
        return Some((number, true));
    }
    let digits = text.strip_prefix("key")?;
    let is_number =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_number).map(|number| (number, false))
}

/// The value of a key that is known.
fn named(key: u16, value: &[u8]) -> Option<Vec<u8>> {
    let items = |value| Some(std::str::from_utf8(value).ok()?.split(','));
    match key {
        MANDATORY => {
            let mut keys: Vec<u16> = items(value)?.map(|key| Some(key_of(key)?.0)).collect::<Option<_>>()?;
            keys.sort_unstable();
            Some(keys.iter().flat_map(|key| key.to_be_bytes()).collect())
        }
        ALPN => {
            let mut bytes = Vec::new();
            for id in list(value)? {
                push_text(&id, &mut bytes).ok().filter(|()| !id.is_empty())?;
            }
            Some(bytes)
        }
        NO_DEFAULT_ALPN | OHTTP => value.is_empty().then(Vec::new),
        PORT => {
            let port: u16 = std::str::from_utf8(value).ok()?.parse().ok()?;
            Some(port.to_be_bytes().to_vec())
        }
        IPV4_HINT => {
            let ips = items(value)?.map(|ip| Some(ip.parse::<Ipv4Addr>().ok()?.octets()));
            Some(ips.collect::<Option<Vec<_>>>()?.concat())
        }
        IPV6_HINT => {
            let ips = items(value)?.map(|ip| Some(ip.parse::<Ipv6Addr>().ok()?.octets()));
            Some(ips.collect::<Option<Vec<_>>>()?.concat())
        }
        ECH => STANDARD.decode(value).ok(),
        _ => unescaped(value).filter(|path| std::str::from_utf8(path).is_ok()),
    }
}

/// Values with commas between them; within one, a comma and a backslash have a backslash in front (appendix A.1), behind the
/// escapes of the word itself.
fn list(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let text = unescaped(value)?;
    let (mut items, mut item, mut rest) = (Vec::new(), Vec::new(), &text[..]);
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b',' => items.push(std::mem::take(&mut item)),
            b'\\' => {
                let (byte, _, tail) = split_escape(&[b"\\", rest].concat())
                    .map(|(byte, is_escaped, tail)| (byte, is_escaped, tail.len()))?;
                item.push(byte);
                rest = &rest[rest.len() - tail..];
            }
            other => item.push(*other),
        }
    }
    items.push(item);
    Some(items)
}
