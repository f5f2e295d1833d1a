//! coturn: channels of TURN (RFC 8656) over UDP.

use std::error::Error;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Forwarder, Raised};
use crate::kit::programs::{self, on_path};
use crate::lane::{Envelope, Lane, socket};
use crate::network::{FAR, MIDDLE_FAR, MIDDLE_NEAR, NEAR, Network};

const PORT: u16 = 3478;

pub(super) struct Coturn {
    turnserver: PathBuf,
}

impl Coturn {
    pub(super) fn found() -> Option<Self> {
        Some(Self { turnserver: on_path("turnserver").ok()? })
    }

    /// As fast as it can be: no authentication, and one thread that relays, since it has one core.
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.turnserver);
        command.args(["-n", "--no-auth", "--no-tls", "--no-dtls", "--no-tcp", "--no-cli", "--no-stdout-log"]);
        command.args(["--relay-threads", "1", "--listening-port", &PORT.to_string()]);
        command.args(["--listening-ip", &MIDDLE_NEAR.to_string(), "--relay-ip", &MIDDLE_FAR.to_string()]);
        for (option, file) in [("--log-file", "log"), ("--pidfile", "pid"), ("--userdb", "db")] {
            command.arg(option).arg(directory.join(file));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Forwarder for Coturn {
    fn name(&self) -> String {
        "coturn".to_owned()
    }

    fn origin(&self) -> String {
        // It puts warnings in front of its version.
        let output = Command::new(&self.turnserver).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        format!("{}: {}", self.turnserver.display(), text.lines().last().unwrap_or("of unknown version"))
    }

    fn raise(&self, network: &Network, sessions: usize) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let program = programs::start(&network.middle, &mut self.command(directory.path()))?;
        let lane = |_| -> Result<Lane, Box<dyn Error>> {
            let far = socket(&network.far, FAR, None)?;
            let near = socket(&network.near, NEAR, Some(SocketAddr::new(MIDDLE_NEAR.into(), PORT)))?;
            transact(&near, ALLOCATE, &attribute(REQUESTED_TRANSPORT, &[UDP, 0, 0, 0]))?;
            let mut attributes = attribute(CHANNEL_NUMBER, &[CHANNEL.to_be_bytes(), [0, 0]].concat());
            attributes.extend(attribute(XOR_PEER_ADDRESS, &xor_address(far.local_addr()?)?));
            transact(&near, CHANNEL_BIND, &attributes)?;
            Lane::new(near, far, Box::new(ChannelData))
        };
        let lanes = (0..sessions).map(lane).collect::<Result<_, _>>()?;
        let processes = vec![program.0.id()];
        Ok(Raised { processes, lanes, _parts: vec![Box::new(program), Box::new(directory)] })
    }
}

/// Methods of TURN, as requests; a success has the bit [`SUCCESS`] besides.
const ALLOCATE: u16 = 0x0003;
const CHANNEL_BIND: u16 = 0x0009;
const SUCCESS: u16 = 0x0100;

/// Attributes of TURN.
const CHANNEL_NUMBER: u16 = 0x000c;
const XOR_PEER_ADDRESS: u16 = 0x0012;
const REQUESTED_TRANSPORT: u16 = 0x0019;

/// The number of UDP among the protocols of IP.
const UDP: u8 = 17;

/// In every message (RFC 8489).
const MAGIC: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

/// The first number that a channel may have; each client has numbers of its own.
const CHANNEL: u16 = 0x4000;

/// How long the server may take until it answers, from its start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks until the server says that it has done it.
fn transact(socket: &UdpSocket, method: u16, attributes: &[u8]) -> Result<(), Box<dyn Error>> {
    let length = u16::try_from(attributes.len())?;
    let mut request = [method.to_be_bytes(), length.to_be_bytes()].concat();
    request.extend(MAGIC);
    // Only tells the answers to one method from those to another.
    let transaction = [request[1]; 12];
    request.extend(transaction);
    request.extend(attributes);
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let started = Instant::now();
    let mut answer = [0; 1500];
    while started.elapsed() < PATIENCE {
        // Refused while nobody listens yet.
        let answered = socket.send(&request).and_then(|_| socket.recv(&mut answer));
        match answered {
            // A request sent again is answered again.
            Ok(20..) if answer[8..20] != transaction => {}
            Ok(20..) if answer[..2] == (method | SUCCESS).to_be_bytes() => return Ok(()),
            Ok(length) => return Err(format!("coturn refuses: {:x?}", &answer[..length]).into()),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    Err("coturn does not answer".into())
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    [&kind.to_be_bytes(), &length.to_be_bytes(), value].concat()
}

/// An address as TURN writes it, so that no NAT on the way takes it for its own.
fn xor_address(address: SocketAddr) -> Result<Vec<u8>, Box<dyn Error>> {
    let SocketAddr::V4(address) = address else { return Err("the network is of IPv4".into()) };
    let (ip, port) = (SocketAddrV4::ip(&address).octets(), address.port().to_be_bytes());
    let mut value = vec![0, 1];
    value.extend(port.iter().zip(MAGIC).map(|(byte, magic)| byte ^ magic));
    value.extend(ip.iter().zip(MAGIC).map(|(byte, magic)| byte ^ magic));
    Ok(value)
}

/// The header of a channel.
struct ChannelData;

impl Envelope for ChannelData {
    fn len(&self) -> usize {
        4
    }

    fn write(&mut self, datagram: &mut [u8]) {
        let length = u16::try_from(datagram.len() - self.len()).unwrap_or(u16::MAX);
        datagram[..2].copy_from_slice(&CHANNEL.to_be_bytes());
        datagram[2..4].copy_from_slice(&length.to_be_bytes());
    }
}
