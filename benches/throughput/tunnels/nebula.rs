//! Nebula, two hosts that know each other's address: no lighthouse.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MTU, Raised, SOCKET_BUFFER, Tunnel, run, to_stderr};
use crate::hosts::{Host, Hosts};
use crate::kit::programs::{NotOnPath, Program, on_path, path_and_version};

/// The port on which both sides listen.
const PORT: u16 = 4242;

/// The program.
pub(super) struct Nebula {
    daemon: PathBuf,
    cert: PathBuf,
}

impl Nebula {
    /// The one on the PATH, and what makes its certificates.
    pub(super) fn find() -> Result<Self, NotOnPath> {
        Ok(Self { daemon: on_path("nebula")?, cert: on_path("nebula-cert")? })
    }

    /// Makes the authority that both hosts believe.
    fn make_authority(&self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let mut make = Command::new(&self.cert);
        make.args(["ca", "-name", "bench", "-out-key"]).arg(directory.join("ca.key"));
        run(make.arg("-out-crt").arg(directory.join("ca.crt"))).map(drop)
    }

    /// Makes a host's key and certificate.
    fn make_certificate(&self, host: &Host, directory: &Path) -> Result<(), Box<dyn Error>> {
        let (file, network) = (directory.join(host.name), format!("{}/24", host.inner));
        let mut sign = Command::new(&self.cert);
        sign.args(["sign", "-name", host.name, "-networks", &network]);
        sign.arg("-ca-key").arg(directory.join("ca.key")).arg("-ca-crt").arg(directory.join("ca.crt"));
        sign.arg("-out-key").arg(file.with_extension("key"));
        run(sign.arg("-out-crt").arg(file.with_extension("crt"))).map(drop)
    }

    fn start(&self, host: &Host, peer: &Host, directory: &Path) -> Result<Program, Box<dyn Error>> {
        let file = directory.join(host.name).with_extension("yml");
        fs::write(&file, configuration(host, peer, directory))?;
        host.start(Command::new(&self.daemon).arg("-config").arg(file).stdout(to_stderr()?))
    }
}

impl Tunnel for Nebula {
    fn name(&self) -> &'static str {
        "nebula"
    }

    fn origin(&self) -> String {
        path_and_version(&self.daemon)
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let Hosts { client, server } = hosts;
        self.make_authority(directory.path())?;
        self.make_certificate(client, directory.path())?;
        self.make_certificate(server, directory.path())?;
        let ends =
            [self.start(server, client, directory.path())?, self.start(client, server, directory.path())?];
        Ok(Raised {
            server: server.inner,
            processes: ends.iter().map(|end| end.0.id()).collect(),
            _parts: vec![Box::new(ends), Box::new(directory)],
        })
    }
}

/// With AES-256-GCM, and without a filter.
fn configuration(host: &Host, peer: &Host, directory: &Path) -> String {
    let own = directory.join(host.name);
    let (authority, certificate, key) =
        (directory.join("ca.crt"), own.with_extension("crt"), own.with_extension("key"));
    format!(
        "pki: {{ ca: {authority:?}, cert: {certificate:?}, key: {key:?} }}\n\
         static_host_map: {{ \"{}\": [\"{}:{PORT}\"] }}\n\
         lighthouse: {{ am_lighthouse: false }}\n\
         listen: {{ host: \"{}\", port: {PORT}, read_buffer: {SOCKET_BUFFER}, write_buffer: {SOCKET_BUFFER} }}\n\
         tun: {{ dev: nebula0, mtu: {MTU}, tx_queue: 1000 }}\n\
         cipher: aes\n\
         logging: {{ level: error }}\n\
         firewall:\n  outbound: [{{ port: any, proto: any, host: any }}]\n  \
         inbound: [{{ port: any, proto: any, host: any }}]\n",
        peer.inner,
        peer.outer(0),
        host.outer(0),
    )
}
