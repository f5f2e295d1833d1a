//! Reading `[etcd]`: the certificates for the cluster that keeps the state.

use std::path::Path;
use std::sync::Arc;

use psmc_toml::{Complaint, FILE, Section, Source, ValueError};
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::error_chain;

pub(super) const KEYS: &[&str] = &["ca_file", "certificate_file", "private_key_file"];

/// TLS to the members, and what this side shows; `None` if there are complaints.
pub(super) fn tls(
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Arc<ClientConfig>> {
    let remedy = "the certificate that has signed those of the members";
    let ca = section.required_at("ca_file", FILE.like("\"/etc/psmc-coordinator/ca.pem\""), remedy, out);
    let shown = section.optional_at("certificate_file", FILE.like("\"/etc/psmc-coordinator/co1.pem\""), out);
    let key =
        section.optional_at("private_key_file", FILE.like("\"/etc/psmc-coordinator/co1-etcd.key\""), out);
    let roots = ca.and_then(|file| source.read_beside(&file, roots, out))?;
    let identity = match (shown, key) {
        (None, None) => None,
        (Some(shown), Some(key)) => {
            let certificates = source.read_beside(&shown, certificates, out);
            let private = source.read_beside(&key, private_key, out);
            Some((certificates?, private?))
        }
        (Some(one), None) | (None, Some(one)) => {
            let remedy = "name certificate_file and private_key_file, both or none";
            let reason = "a certificate is shown with the key that belongs to it";
            out.push(Complaint::new(reason, remedy).at(one.span()));
            return None;
        }
    };
    let setup = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots));
    let config = match (setup, identity) {
        (Ok(builder), None) => Ok(builder.with_no_client_auth()),
        (Ok(builder), Some((certificates, key))) => builder.with_client_auth_cert(certificates, key),
        (Err(error), _) => Err(error),
    };
    let complaint = |error: rustls::Error| {
        let reason = format!("TLS to etcd cannot be set up: {error}");
        out.push(
            Complaint::new(reason, "check whether the key belongs to the certificate").at(section.place()),
        );
    };
    config.map(Arc::new).map_err(complaint).ok()
}

fn roots(path: &Path) -> Result<RootCertStore, ValueError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ValueError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, pem::Error>>();
    let found = read().map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(unusable(path, &pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ValueError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &dyn std::error::Error) -> ValueError {
    let reason = format!("{} cannot be used: {}", path.display(), error_chain(error));
    ValueError::new(reason, "name a file in the format PEM that this user can read")
}
