//! The set itself, its canonical form, and its signature.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};
use psmc_net::keys::{KEY_LEN, PrivateKey, PublicKey, SIGNATURE_LEN};

use super::RouteError;

/// Relays in a set at most: with so many, each with a gateway over IPv6, a record still fits into 1,500 bytes.
pub const MAX_RELAYS: usize = 16;

/// How long a set may last, in seconds: a week. So long an old one can be replayed to a client that has seen no other.
pub const MAX_LIFETIME_S: u64 = 7 * 24 * 3600;

/// Length of a group's tag in bytes.
pub const GROUP_TAG_LEN: usize = 8;

/// Which group of clients a set is for; all zero for everyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupTag(pub [u8; GROUP_TAG_LEN]);

impl GroupTag {
    /// The tag of sets that everyone may read.
    pub const EVERYONE: Self = Self([0; GROUP_TAG_LEN]);
}

/// A relay, and whom to ask it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Where it is reached, UDP and TCP.
    pub address: SocketAddr,
    /// The key that it proves to have.
    pub key: PublicKey,
    /// The gateway behind it, where that is not the service's own key.
    pub gateway: Option<PublicKey>,
}

/// From when and until when a set counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Rises with every set of a service.
    pub serial: u64,
    /// When it ends, in seconds since 1970 (UTC).
    pub expires_s: u64,
}

/// The relays through which a service is reached, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSet {
    service: Name,
    group: GroupTag,
    validity: Validity,
    relays: Vec<Relay>,
}

impl RouteSet {
    /// A set for everyone.
    ///
    /// # Errors
    /// [`RouteError`] for a name that is not a host's, and for none, too many, or unusable relays.
    pub fn new(service: &Name, validity: Validity, relays: Vec<Relay>) -> Result<Self, RouteError> {
        if !service.is_fqdn() || service.is_root() || service.is_wildcard() {
            return Err(RouteError::Service(service.to_string()));
        }
        if relays.is_empty() || relays.len() > MAX_RELAYS {
            return Err(RouteError::RelayCount(relays.len()));
        }
        for (index, relay) in relays.iter().enumerate() {
            let ip = relay.address.ip();
            if relay.address.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
                return Err(RouteError::Address(relay.address));
            }
            if relays[..index].iter().any(|other| other.address == relay.address) {
                return Err(RouteError::Twice(relay.address));
            }
        }
        Ok(Self { service: service.to_lowercase(), group: GroupTag::EVERYONE, validity, relays })
    }

    /// The same set for one group only.
    #[must_use]
    pub fn for_group(self, group: GroupTag) -> Self {
        Self { group, ..self }
    }

    /// Whose routes they are: an absolute name in lower case.
    #[must_use]
    pub fn service(&self) -> &Name {
        &self.service
    }

    /// Whom they are for.
    #[must_use]
    pub fn group(&self) -> GroupTag {
        self.group
    }

    /// How long they count.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// The relays, the preferred one first.
    #[must_use]
    pub fn relays(&self) -> &[Relay] {
        &self.relays
    }

    /// Signs the set with the service's key.
    #[must_use]
    pub fn sign(self, service_key: &PrivateKey) -> SignedRoutes {
        let signature = service_key.sign(&self.canonical());
        SignedRoutes { set: self, signature }
    }

    /// What is signed: a text that no other protocol signs, the name, the group, and the body.
    fn canonical(&self) -> Vec<u8> {
        let mut bytes = CONTEXT.to_vec();
        bytes.extend(wire_name(&self.service));
        bytes.extend(self.group.0);
        self.write_body(&mut bytes);
        bytes
    }

    /// Serial, expiry, the number of relays, and the relays.
    pub(super) fn write_body(&self, out: &mut Vec<u8>) {
        out.extend(self.validity.serial.to_be_bytes());
        out.extend(self.validity.expires_s.to_be_bytes());
        out.push(self.count());
        for relay in &self.relays {
            relay.write(out);
        }
    }

    /// How many relays there are.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.relays.len()).expect("a set has at most MAX_RELAYS relays")
    }

    /// Reads what [`write_body`](Self::write_body) writes.
    pub(super) fn read_body(
        service: &Name,
        group: GroupTag,
        reader: &mut Reader<'_>,
    ) -> Result<Self, RouteError> {
        let serial = u64::from_be_bytes(reader.array()?);
        let expires_s = u64::from_be_bytes(reader.array()?);
        let [count] = reader.array()?;
        if usize::from(count) > MAX_RELAYS {
            return Err(RouteError::RelayCount(count.into()));
        }
        let relays = (0..count).map(|_| Relay::read(reader)).collect::<Result<_, _>>()?;
        Ok(Self::new(service, Validity { serial, expires_s }, relays)?.for_group(group))
    }
}

impl Relay {
    fn write(&self, out: &mut Vec<u8>) {
        let gateway = if self.gateway.is_some() { WITH_GATEWAY } else { 0 };
        match self.address.ip() {
            IpAddr::V4(ip) => {
                out.push(gateway);
                out.extend(ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(gateway | OVER_IPV6);
                out.extend(ip.octets());
            }
        }
        out.extend(self.address.port().to_be_bytes());
        out.extend(self.key.as_bytes());
        out.extend(self.gateway.iter().flat_map(|key| key.as_bytes()));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RouteError> {
        let [flags] = reader.array()?;
        if flags & !(OVER_IPV6 | WITH_GATEWAY) != 0 {
            return Err(RouteError::Length);
        }
        let ip: IpAddr = match flags & OVER_IPV6 {
            0 => reader.array::<4>()?.into(),
            _ => reader.array::<16>()?.into(),
        };
        let port = u16::from_be_bytes(reader.array()?);
        let key = PublicKey::from_bytes(reader.array()?);
        let gateway = match flags & WITH_GATEWAY {
            0 => None,
            _ => Some(PublicKey::from_bytes(reader.array::<KEY_LEN>()?)),
        };
        Ok(Self { address: SocketAddr::new(ip, port), key, gateway })
    }
}

/// A set as records carry it: claims, until they are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRoutes {
    pub(super) set: RouteSet,
    pub(super) signature: [u8; SIGNATURE_LEN],
}

impl SignedRoutes {
    /// The set, if its service has signed it and it counts: `now_s` in seconds since 1970, `seen` the highest serial
    /// that was seen of this service so far (0 for none).
    ///
    /// # Errors
    /// [`RouteError`]: forged, expired, too long, or older than what was seen.
    pub fn verify(&self, service_key: &PublicKey, now_s: u64, seen: u64) -> Result<&RouteSet, RouteError> {
        if !self.is_signed_by(service_key) {
            return Err(RouteError::Forged);
        }
        let Validity { serial, expires_s } = self.set.validity;
        let Some(left) = expires_s.checked_sub(now_s).filter(|left| *left > 0) else {
            return Err(RouteError::Expired(now_s - expires_s));
        };
        if left > MAX_LIFETIME_S {
            return Err(RouteError::TooLong(left));
        }
        if serial < seen {
            return Err(RouteError::Replayed { found: serial, seen });
        }
        Ok(&self.set)
    }

    /// Whether the service has signed the set at all, however long ago.
    #[must_use]
    pub fn is_signed_by(&self, service_key: &PublicKey) -> bool {
        service_key.has_signed(&self.set.canonical(), &self.signature)
    }

    /// What the records say, believed by nobody.
    #[must_use]
    pub fn claims(&self) -> &RouteSet {
        &self.set
    }

    /// Its body and its signature.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.set.write_body(out);
        out.extend(self.signature);
    }

    /// Reads what [`write`](Self::write) writes, and nothing after it.
    pub(super) fn read(service: &Name, group: GroupTag, bytes: &[u8]) -> Result<Self, RouteError> {
        let mut reader = Reader(bytes);
        let set = RouteSet::read_body(service, group, &mut reader)?;
        let signature = reader.array()?;
        match reader.0 {
            [] => Ok(Self { set, signature }),
            [_, ..] => Err(RouteError::Length),
        }
    }
}

/// A name as it is signed and sealed: uncompressed, in lower case (RFC 4034 §6.2).
pub(super) fn wire_name(name: &Name) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = BinEncoder::new(&mut bytes);
    encoder.set_name_encoding(NameEncoding::UncompressedLowercase);
    name.emit(&mut encoder).expect("a name of at most 255 bytes fits into 64 KiB");
    bytes
}

/// Bytes that are taken from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RouteError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(RouteError::Length)?;
        self.0 = rest;
        Ok(*array)
    }
}

/// What a signature over routes begins with, so that it means nothing anywhere else.
const CONTEXT: &[u8] = b"psmc-dns routes v1\0";

/// The relay's address is of IPv6.
const OVER_IPV6: u8 = 1;

/// A gateway's key follows.
const WITH_GATEWAY: u8 = 2;
