//! Who is let in: one pinned key, or a list of keys.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme,
};

use super::config;
use super::error::RejectedKey;
use crate::keys::PublicKey;

/// The keys that an [`Acceptor`](super::Acceptor) lets in. Clones share one set.
#[derive(Clone, Debug, Default)]
pub struct AllowedKeys(Arc<RwLock<Allowed>>);

#[derive(Debug)]
enum Allowed {
    These(BTreeSet<PublicKey>),
    Every,
}

impl Default for Allowed {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

impl AllowedKeys {
    /// Every key there is: who lets them all in knows afterwards whose it was, and decides then.
    #[must_use]
    pub fn every() -> Self {
        Self(Arc::new(RwLock::new(Allowed::Every)))
    }

    /// Replaces the whole set. Handshakes from here on see it; connections that stand are not touched.
    pub fn replace(&self, keys: BTreeSet<PublicKey>) {
        // A set is swapped in one step, so that a poisoned lock holds a whole one too.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Allowed::These(keys);
    }

    /// Lets one more key in.
    pub fn add(&self, key: PublicKey) {
        // A set that was poisoned has all its keys still.
        if let Allowed::These(keys) = &mut *self.0.write().unwrap_or_else(PoisonError::into_inner) {
            keys.insert(key);
        }
    }

    /// Whether `key` is in the set.
    #[must_use]
    pub fn contains(&self, key: &PublicKey) -> bool {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            Allowed::These(keys) => keys.contains(key),
            Allowed::Every => true,
        }
    }
}

impl FromIterator<PublicKey> for AllowedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self(Arc::new(RwLock::new(Allowed::These(keys.into_iter().collect()))))
    }
}

/// What either side's verifier says of signatures: those of TLS 1.3 by raw Ed25519 keys only. `$tls12` is why others are refused.
macro_rules! with_raw_keys {
    ($tls12:expr) => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err($tls12.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_signature(message, cert, dss, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Accepts the server that owns one key.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) expected: PublicKey,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = parse(end_entity)?;
        if found != self.expected {
            return Err(RejectedKey { found, expected: Some(self.expected) }.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    with_raw_keys!(PeerIncompatible::Tls12NotOffered);
}

/// Accepts every client that owns a key of a set.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) allowed: AllowedKeys,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Listed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let found = parse(end_entity)?;
        if !self.allowed.contains(&found) {
            return Err(RejectedKey { found, expected: None }.into());
        }
        Ok(ClientCertVerified::assertion())
    }

    with_raw_keys!(PeerIncompatible::Tls12NotOfferedOrEnabled);
}

fn parse(end_entity: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    config::from_spki(end_entity).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// Both sides sign the transcript (RFC 8446 §4.4.3), which proves that they own the key they showed.
fn verify_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let spki = SubjectPublicKeyInfoDer::from(cert.as_ref());
    verify_tls13_signature_with_raw_key(message, &spki, dss, algorithms)
}
