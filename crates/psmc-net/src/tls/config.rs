//! The configurations of rustls for both sides.
//!
//! The provider of cryptography is given explicitly: a process-wide default would be a choice for others.

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};

use super::Identity;
use super::trust::{AllowedKeys, Listed, Pinned};
use crate::keys::PublicKey;

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
