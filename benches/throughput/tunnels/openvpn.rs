//! OpenVPN, two ends that know each other's certificate.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MTU, Raised, SOCKET_BUFFER, Tunnel, run, to_stderr};
use crate::hosts::{Host, Hosts};
use crate::kit::programs::{NotOnPath, Program, on_path, path_and_version};

/// The port on which both sides listen.
const PORT: u16 = 1194;

/// The program, in user space as we are: what the kernel's module for it could do is not used.
pub(super) struct OpenVpn {
    daemon: PathBuf,
    openssl: PathBuf,
}

impl OpenVpn {
    /// The one on the PATH, and what makes its certificates.
    pub(super) fn find() -> Result<Self, NotOnPath> {
        Ok(Self { daemon: on_path("openvpn")?, openssl: on_path("openssl")? })
    }

    /// Makes the side's key and certificate, and returns the fingerprint by which the other side knows it.
    fn make_certificate(&self, side: &Side<'_>) -> Result<String, Box<dyn Error>> {
        let mut make = Command::new(&self.openssl);
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        make.args(["-days", "2", "-subj", &format!("/CN={}", side.host.name)]);
        run(make.arg("-keyout").arg(&side.key).arg("-out").arg(&side.certificate))?;
        let mut print = Command::new(&self.openssl);
        let printed =
            run(print.args(["x509", "-noout", "-fingerprint", "-sha256", "-in"]).arg(&side.certificate))?;
        let (_, fingerprint) = printed.split_once('=').ok_or("openssl prints no fingerprint")?;
        Ok(fingerprint.trim().to_owned())
    }

    fn start(&self, side: &Side<'_>, peer: &Host, fingerprint: &str) -> Result<Program, Box<dyn Error>> {
        let mut command = Command::new(&self.daemon);
        command.args(["--dev", "ovpn0", "--dev-type", "tun", "--proto", "udp4", "--verb", "0"]);
        command.args(["--local", &side.host.outer(0).to_string(), "--lport", &PORT.to_string()]);
        command.args(["--remote", &peer.outer(0).to_string(), &PORT.to_string()]);
        command.args(["--ifconfig", &side.host.inner.to_string(), &peer.inner.to_string()]);
        command.args(side.role).arg("--key").arg(&side.key).arg("--cert").arg(&side.certificate);
        command.args(["--peer-fingerprint", fingerprint, "--data-ciphers", "AES-256-GCM", "--disable-dco"]);
        // What its manual has for speed.
        let (mtu, buffer) = (MTU.to_string(), SOCKET_BUFFER.to_string());
        command.args(["--tun-mtu", &mtu, "--mssfix", "0", "--fast-io", "--txqueuelen", "1000"]);
        command.args(["--sndbuf", &buffer, "--rcvbuf", &buffer]);
        side.host.start(command.stdout(to_stderr()?))
    }
}

impl Tunnel for OpenVpn {
    fn name(&self) -> &'static str {
        "openvpn"
    }

    fn origin(&self) -> String {
        path_and_version(&self.daemon)
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let client = Side::new(&hosts.client, &["--tls-client"], directory.path());
        let server = Side::new(&hosts.server, &["--tls-server", "--dh", "none"], directory.path());
        let (of_client, of_server) = (self.make_certificate(&client)?, self.make_certificate(&server)?);
        let ends = [
            self.start(&server, &hosts.client, &of_client)?,
            self.start(&client, &hosts.server, &of_server)?,
        ];
        Ok(Raised {
            server: hosts.server.inner,
            processes: ends.iter().map(|end| end.0.id()).collect(),
            _parts: vec![Box::new(ends), Box::new(directory)],
        })
    }
}

/// One end of the tunnel.
struct Side<'a> {
    host: &'a Host,
    /// In the handshake.
    role: &'static [&'static str],
    key: PathBuf,
    certificate: PathBuf,
}

impl<'a> Side<'a> {
    fn new(host: &'a Host, role: &'static [&'static str], directory: &Path) -> Self {
        let file = directory.join(host.name);
        Self { host, role, key: file.with_extension("key"), certificate: file.with_extension("crt") }
    }
}
