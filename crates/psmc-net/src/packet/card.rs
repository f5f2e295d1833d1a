//! What the kernel knows of an Ethernet interface.

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::libc::{self, ENODEV, SIOCETHTOOL, SIOCGIFMTU, ifreq};
use nix::net::if_::InterfaceFlags;
use socket2::{Domain, Socket, Type};

/// An Ethernet interface, as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub hardware: [u8; 6],
    /// Its first IPv4 address, and the length of the prefix.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Whether it is up, and something is at the other end.
    pub is_running: bool,
    /// The longest IP packet that it takes, in bytes.
    pub mtu: usize,
    /// Bits per second, if its driver says so.
    pub rate: Option<u64>,
}

/// Why there is nothing to be known of an interface.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// It does not exist in this namespace.
    #[error("no interface {0}: `ip link` lists the interfaces")]
    Missing(String),
    /// It has no hardware address of six bytes.
    #[error("{0} is no Ethernet interface")]
    NoEthernet(String),
    /// The kernel does not tell.
    #[error("cannot ask the kernel about {name}")]
    Unknown {
        /// The interface.
        name: String,
        /// What it answered.
        source: io::Error,
    },
}

impl Card {
    /// The interface of this name, in the namespace of this thread.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn named(name: &str) -> Result<Self, CardError> {
        let unknown = |source| CardError::Unknown { name: name.to_owned(), source };
        let (mut hardware, mut address, mut flags) = (None, None, None);
        for entry in getifaddrs().map_err(|errno| unknown(errno.into()))? {
            if entry.interface_name != name {
                continue;
            }
            flags = flags.or(Some(entry.flags));
            let link = entry.address.as_ref().and_then(|address| address.as_link_addr()?.addr());
            hardware = hardware.or(link);
            let mask = entry.netmask.as_ref().and_then(|mask| Some(mask.as_sockaddr_in()?.ip()));
            let ip = entry.address.as_ref().and_then(|address| Some(address.as_sockaddr_in()?.ip()));
            let prefix = mask.map(|mask| u32::from(mask).leading_ones());
            let prefix = prefix.and_then(|bits| u8::try_from(bits).ok());
            address = address.or(ip.zip(prefix));
        }
        let flags = flags.ok_or_else(|| CardError::Missing(name.to_owned()))?;
        let is_running = flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
        let hardware = hardware.filter(|_| !flags.contains(InterfaceFlags::IFF_LOOPBACK));
        Ok(Self {
            name: name.to_owned(),
            hardware: hardware.ok_or_else(|| CardError::NoEthernet(name.to_owned()))?,
            address,
            is_running,
            mtu: mtu(name).map_err(unknown)?,
            rate: rate(name).ok().flatten(),
        })
    }
}

fn mtu(name: &str) -> io::Result<usize> {
    let mut request = request_for(name)?;
    ask(libc::c_ulong::from(SIOCGIFMTU), &mut request)?;
    // SAFETY: the kernel has filled in the number that this request asks for.
    #[expect(unsafe_code, reason = "it is a union")]
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(io::Error::other)
}

/// `ETHTOOL_GSET` of `linux/ethtool.h`.
const GET_SETTINGS: u32 = 1;

/// `struct ethtool_cmd`, as far as it is of use.
#[repr(C)]
struct Settings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    between: [u8; 14],
    speed_high: u16,
    rest: [u8; 14],
}

/// Bits per second; none if the driver does not know, or there is no such thing.
fn rate(name: &str) -> io::Result<Option<u64>> {
    let mut settings = Settings {
        command: GET_SETTINGS,
        supported: 0,
        advertising: 0,
        speed: 0,
        between: [0; 14],
        speed_high: 0,
        rest: [0; 14],
    };
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_data = (&raw mut settings).cast();
    ask(libc::c_ulong::from(SIOCETHTOOL), &mut request)?;
    let megabits = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    // All bits are set where the speed is not known, of which old drivers fill in only the lower half.
    let is_known = megabits != 0 && megabits != u32::MAX && megabits != u32::from(u16::MAX);
    Ok(is_known.then(|| u64::from(megabits) * 1_000_000))
}

fn ask(what: libc::c_ulong, request: &mut ifreq) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: both requests take an ifreq with a terminated name; for SIOCETHTOOL its data points to a structure of the command,
    // which outlives the call.
    #[expect(unsafe_code, reason = "no crate of ours knows these requests")]
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), what as _, &raw mut *request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn request_for(name: &str) -> io::Result<ifreq> {
    // SAFETY: an ifreq consists of integers and pointers, for which zero is a value.
    #[expect(unsafe_code, reason = "it has a union, and so no literal that fills it")]
    let mut request: ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero, for the name must end with one.
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}
