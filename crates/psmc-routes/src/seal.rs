//! Routes that only a group of clients can read: AES-256-GCM under a key that the group shares.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::rr::Name;
use psmc_net::keys::{KEY_LEN, PrivateKey};
use zeroize::Zeroizing;

use super::set::{Reader, wire_name};
use super::{GROUP_TAG_LEN, GroupTag, RouteError, SignedRoutes};

/// The secret of a group of clients, and of whoever publishes routes for them; made by `psmc genkey`.
pub struct GroupKey {
    tag: GroupTag,
    aead: LessSafeKey,
}

impl GroupKey {
    /// The group whose secret `secret` is. The key and the tag are derived from it, so neither tells it.
    #[must_use]
    pub fn new(secret: &PrivateKey) -> Self {
        let text = secret.to_base64();
        let secret = Zeroizing::new(STANDARD.decode(&*text).expect("a key's own base64 is base64"));
        let pseudorandom = Salt::new(HKDF_SHA256, SALT).extract(&secret);
        let derive = |info: &'static [u8], out: &mut [u8]| {
            let okm = pseudorandom.expand(&[info], Len(out.len())).and_then(|okm| okm.fill(&mut *out));
            okm.expect("HKDF yields up to 8160 bytes");
        };
        let (mut key, mut tag) = (Zeroizing::new([0; KEY_LEN]), [0; GROUP_TAG_LEN]);
        derive(b"key", &mut *key);
        derive(b"tag", &mut tag);
        let aead = UnboundKey::new(&AES_256_GCM, &*key).expect("AES-256 takes 32 bytes");
        Self { tag: GroupTag(tag), aead: LessSafeKey::new(aead) }
    }

    /// By what the group's records are known among others.
    #[must_use]
    pub fn tag(&self) -> GroupTag {
        self.tag
    }

    /// Seals routes that were signed for this group.
    ///
    /// # Panics
    /// If the system has no randomness to give.
    #[must_use]
    pub fn seal(&self, routes: &SignedRoutes) -> SealedRoutes {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).expect("the system gives randomness");
        let mut sealed = Vec::new();
        routes.write(&mut sealed);
        let name = wire_name(routes.claims().service());
        self.aead
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from([&self.tag.0[..], &name].concat()),
                &mut sealed,
            )
            .expect("a record is far shorter than the limit of AES-GCM");
        SealedRoutes { service: routes.claims().service().clone(), group: self.tag, nonce, sealed }
    }

    /// Opens what was sealed to this group. What comes out is still to be verified.
    ///
    /// # Errors
    /// [`RouteError::Sealed`] if the record is another group's, was changed, or is another name's; or as for an open
    /// record.
    pub fn open(&self, record: &SealedRoutes) -> Result<SignedRoutes, RouteError> {
        if record.group != self.tag {
            return Err(RouteError::Sealed);
        }
        let mut bytes = record.sealed.clone();
        let aad = Aad::from([&self.tag.0[..], &wire_name(&record.service)].concat());
        let nonce = Nonce::assume_unique_for_key(record.nonce);
        let opened = self.aead.open_in_place(nonce, aad, &mut bytes).map_err(|_| RouteError::Sealed)?;
        SignedRoutes::read(&record.service, self.tag, opened)
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey({:?}, ..)", self.tag)
    }
}

/// Routes that only a group can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRoutes {
    service: Name,
    group: GroupTag,
    nonce: [u8; NONCE_LEN],
    sealed: Vec<u8>,
}

impl SealedRoutes {
    /// Which group can read it.
    #[must_use]
    pub fn group(&self) -> GroupTag {
        self.group
    }

    pub(super) fn read(service: &Name, body: &[u8]) -> Result<Self, RouteError> {
        let mut reader = Reader(body);
        let group = GroupTag(reader.array()?);
        let nonce = reader.array()?;
        let sealed = reader.0.to_vec();
        if sealed.len() < AES_256_GCM.tag_len() {
            return Err(RouteError::Length);
        }
        Ok(Self { service: service.to_lowercase(), group, nonce, sealed })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.group.0);
        out.extend(self.nonce);
        out.extend(&self.sealed);
    }
}

/// How many bytes HKDF is asked for.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF's salt (RFC 5869 §3.1), so that the same secret elsewhere yields other keys.
const SALT: &[u8] = b"psmc-dns group v1";
