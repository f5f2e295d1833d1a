//! Ours: the real relay, configured as a user would; or several in a row on one host.

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::connect_tcp;
use psmc_wire::PacketNumber;
use psmc_wire::datagram::Marks;
use psmc_wire::hop::{HOP_HEADER_LEN, Hop, write_hop_header};
use psmc_wire::relay::{Far, Message};
use tempfile::TempDir;

use super::{Forwarder, Raised};
use crate::kit::programs::{self, Program, path_and_version};
use crate::lane::{Envelope, Lane, socket};
use crate::network::{FAR, MIDDLE_NEAR, NEAR, Network};
use crate::site::{PATIENCE, Site};

/// The port of the first relay; the next ones have the next ports.
const PORT: u16 = 5115;

/// The longest chain whose costs are of interest.
const MAX_HOPS: u16 = 4;

/// So many relays in a row.
pub(crate) struct Psmc {
    pub(crate) program: PathBuf,
    pub(crate) hops: u16,
}

impl Psmc {
    /// From one relay to as many as anybody would use.
    pub(crate) fn chains(program: &Path) -> Vec<Box<dyn Forwarder>> {
        let chain = |hops| Box::new(Self { program: program.to_owned(), hops }) as Box<dyn Forwarder>;
        (1..=MAX_HOPS).map(chain).collect()
    }
}

impl Forwarder for Psmc {
    fn name(&self) -> String {
        if self.hops == 1 { "psmc".to_owned() } else { format!("psmc × {}", self.hops) }
    }

    fn origin(&self) -> String {
        path_and_version(&self.program)
    }

    fn raise(&self, network: &Network, sessions: usize) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let site = PrivateKey::generate();
        let relays = (PORT..PORT + self.hops)
            .map(|port| Relay::start(&self.program, network, &directory, port, site.public()))
            .collect::<Result<Vec<_>, _>>()?;
        let lane = |_| -> Result<Lane, Box<dyn Error>> {
            let far = socket(&network.far, FAR, None)?;
            // From the last one to the first, since each has to know a label of the next.
            let mut leads_to = Far::Address(far.local_addr()?);
            let mut first = None;
            for relay in relays.iter().rev() {
                let hop = relay.reserve(network, &site, leads_to)?;
                leads_to = Far::Relay(relay.address, hop.clone());
                first = Some((relay.address, hop));
            }
            let (address, hop) = first.ok_or("a chain has at least one relay")?;
            let near = socket(&network.near, NEAR, Some(address))?;
            Lane::new(near, far, Box::new(HopHeader { hop, next: PacketNumber(0) }))
        };
        let lanes = (0..sessions).map(lane).collect::<Result<_, _>>()?;
        let processes = relays.iter().map(|relay| relay.program.0.id()).collect();
        Ok(Raised { processes, lanes, _parts: vec![Box::new(relays), Box::new(directory)] })
    }
}

/// A relay that runs.
struct Relay {
    program: Program,
    key: PublicKey,
    address: SocketAddr,
}

impl Relay {
    fn start(
        program: &Path,
        network: &Network,
        directory: &TempDir,
        port: u16,
        site: PublicKey,
    ) -> Result<Self, Box<dyn Error>> {
        let key = PrivateKey::generate();
        let file = directory.path().join(format!("relay{port}.toml"));
        write_file(&file, &key, port, site)?;
        let mut command = Command::new(program);
        let mut program =
            programs::start(&network.middle, command.arg("--config").arg(&file).stderr(Stdio::piped()))?;
        let stderr = program.0.stderr.take().ok_or("the relay has no standard error")?;
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        if !lines.any(|line| line.contains("the relay is up")) {
            return Err("psmc-relay has not started".into());
        }
        // A pipe that nobody reads would fill up.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        Ok(Self { program, key: key.public(), address: SocketAddr::new(MIDDLE_NEAR.into(), port) })
    }

    /// Makes a session, and returns what leads into it.
    fn reserve(&self, network: &Network, site: &PrivateKey, far: Far) -> Result<Hop, Box<dyn Error>> {
        let reserved = network.near.block_on(|| async {
            let tcp =
                connect_tcp(None, None, self.address, PATIENCE).await.map_err(|error| error.to_string())?;
            let greeted = Site::greet_over(tcp, site, self.key, None).await;
            match greeted.map_err(|error| error.to_string())? {
                (mut site, Message::Welcome(_)) => Ok(site.reserve(far).await),
                (_, answer) => Err(format!("psmc-relay does not serve us: {answer:?}")),
            }
        })??;
        Ok(reserved.near)
    }
}

fn write_file(file: &PathBuf, key: &PrivateKey, port: u16, site: PublicKey) -> Result<(), Box<dyn Error>> {
    let key_file = file.with_extension("key");
    fs::write(&key_file, key.to_base64().as_str())?;
    fs::set_permissions(&key_file, Permissions::from_mode(0o600))?;
    let control_socket = file.with_extension("sock");
    let [a, b] = [MIDDLE_NEAR, FAR].map(IpAddr::V4);
    let text = format!(
        "[relay]\nname = \"relay{port}\"\nprivate_key_file = {key_file:?}\nlisten = {port}\n\
         destinations = [\"{a}/32\", \"{b}/32\"]\ncontrol_socket = {control_socket:?}\n\n\
         [[allow]]\nname = \"site\"\npublic_key = \"{site}\"\n"
    );
    Ok(fs::write(file, text)?)
}

/// The header of a hop.
struct HopHeader {
    hop: Hop,
    next: PacketNumber,
}

impl Envelope for HopHeader {
    fn len(&self) -> usize {
        HOP_HEADER_LEN
    }

    fn write(&mut self, datagram: &mut [u8]) {
        write_hop_header(datagram, &self.hop, self.next, Marks::default());
        self.next = self.next.next();
    }
}
