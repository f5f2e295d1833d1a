//! The configurations of rustls for both sides.
//!
//! The provider of cryptography is given explicitly: a process-wide default would be a choice for others.
//!
//! Ed25519 keys in the DER structures that TLS and rustls want (RFC 8410).

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, Error, ServerConfig, SignatureAlgorithm, SignatureScheme, SupportedProtocolVersion,
};

use super::Identity;
use super::trust::{AllowedKeys, Listed, Pinned};
use crate::keys::{PrivateKey, PublicKey};

/// Dials as `identity`, whoever owns `expected`, for the protocol `alpn`.
pub(super) fn client(identity: &Identity, expected: PublicKey, alpn: &[u8]) -> ClientConfig {
    let provider = provider();
    let verifier = Pinned { expected, algorithms: provider.signature_verification_algorithms };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .expect("the provider has suites and groups of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            identity.certified.clone(),
        )));
    config.alpn_protocols = vec![alpn.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config
}

/// Answers as `identity` whoever owns a key of `allowed`.
pub(super) fn server(identity: &Identity, allowed: AllowedKeys, alpn: &[u8]) -> ServerConfig {
    let provider = provider();
    let verifier = Listed { allowed, algorithms: provider.signature_verification_algorithms };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .expect("the provider has suites and groups of TLS 1.3")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified.clone())));
    config.alpn_protocols = vec![alpn.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        // In order of preference: hybrid post-quantum, then its classical half.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
        ..default_provider()
    })
}

const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// The key as rustls signs with it and shows it.
pub(super) fn certified(key: &PrivateKey) -> Arc<CertifiedKey> {
    let shown = to_spki(&key.public());
    let signing = Signing { key: key.clone(), shown: shown.clone() };
    Arc::new(CertifiedKey::new(vec![shown], Arc::new(signing)))
}

/// Signs with a key where that is, and makes what is computed from it anew each time: so nobody has a copy of it for long.
#[derive(Clone, Debug)]
struct Signing {
    key: PrivateKey,
    shown: CertificateDer<'static>,
}

impl SigningKey for Signing {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ED25519);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.shown.as_ref()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Signing {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.key.sign(message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// The key as its SubjectPublicKeyInfo, which stands where a certificate would (RFC 7250 §3).
fn to_spki(key: &PublicKey) -> CertificateDer<'static> {
    CertificateDer::from([SPKI_PREFIX, key.as_bytes()].concat())
}

/// The key in a SubjectPublicKeyInfo; `None` for anything but an Ed25519 key in DER.
pub(super) fn from_spki(der: &[u8]) -> Option<PublicKey> {
    let key = der.strip_prefix(SPKI_PREFIX)?;
    key.try_into().ok().map(PublicKey::from_bytes)
}

/// What precedes the 32 bytes of any Ed25519 key in its SubjectPublicKeyInfo (RFC 8410 §4): SEQUENCE of
/// AlgorithmIdentifier (1.3.101.112, no parameters) and BIT STRING.
const SPKI_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_round_trips_and_agrees_with_the_library() {
        let key = PrivateKey::generate();
        let certified = certified(&key);
        assert_eq!(from_spki(&certified.cert[0]), Some(key.public()));
        assert_eq!(certified.key.public_key().unwrap().as_ref(), &*to_spki(&key.public()));
    }

    #[test]
    fn anything_else_is_no_key() {
        let spki = to_spki(&PrivateKey::generate().public());
        for len in 0..spki.len() {
            assert_eq!(from_spki(&spki[..len]), None);
        }
        assert_eq!(from_spki(&[&spki[..], &[0]].concat()), None);
        // The same structure with X25519's identifier, 1.3.101.110.
        let mut x25519 = spki.to_vec();
        x25519[8] = 0x6e;
        assert_eq!(from_spki(&x25519), None);
    }
}
