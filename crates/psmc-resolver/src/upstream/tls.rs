//! Whose certificates are believed.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// Why DNS over TLS cannot be had.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file of certificates cannot be read.
    #[error("cannot read ca_file: it must be a PEM file")]
    File(#[source] pem::Error),
    /// A certificate in the file is none.
    #[error("ca_file contains an unusable certificate")]
    Certificate(#[source] rustls::Error),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up")]
    Setup(#[from] rustls::Error),
}

/// TLS to servers whose certificates are signed by those of `ca_file`, or by those that the system believes.
///
/// # Errors
/// [`TlsError`].
pub(crate) fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path).map_err(TlsError::File)? {
                roots.add(certificate.map_err(TlsError::File)?).map_err(TlsError::Certificate)?;
            }
        }
        // Some in the system's store are always too old to be parsed; the others do.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let mut config =
        ClientConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
    // The name of DNS over TLS (RFC 7858, in the registry of RFC 7301).
    config.alpn_protocols = vec![b"dot".to_vec()];
    Ok(Arc::new(config))
}
