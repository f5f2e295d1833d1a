//! Offloads of an interface, by the `ioctl` of ethtool.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc::{self, EOPNOTSUPP, SIOCETHTOOL, c_char, ifreq};
use socket2::{Domain, Socket, Type};

use super::{Namespace, NetnsError};

/// Commands of `linux/ethtool.h` that switch something on or off, the checksums last: what segments needs them.
const SWITCHES: [u32; 6] = [
    0x1f, // ETHTOOL_STSO: segments of TCP
    0x22, // ETHTOOL_SUFO: fragments of UDP, in old kernels
    0x24, // ETHTOOL_SGSO: segments, put off to the last moment
    0x2c, // ETHTOOL_SGRO: received segments joined
    0x15, // ETHTOOL_SRXCSUM
    0x17, // ETHTOOL_STXCSUM
];

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

impl Namespace {
    /// Switches the offloads of the interface called `name` off: every packet passes by itself, with its checksums complete.
    ///
    /// Without checksum offload the kernel cuts what TCP, or a socket with `UDP_SEGMENT`, hands it at once before the
    /// interface sees it.
    ///
    /// # Errors
    /// [`NetnsError::Offload`]: most often, that there is no such interface.
    pub fn disable_offloads(&self, name: &str) -> Result<(), NetnsError> {
        let failed = |source| NetnsError::Offload { interface: name.to_owned(), source };
        self.run(|| switch_all_off(name)).map_err(failed)
    }
}

fn switch_all_off(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    for command in SWITCHES {
        match switch_off(&socket, name, command) {
            // What a kernel or a driver does not know, it does not do.
            Err(error) if error.raw_os_error() == Some(EOPNOTSUPP) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

fn switch_off(socket: &impl AsFd, name: &str, command: u32) -> io::Result<()> {
    let mut value = Value { command, data: 0 };
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast::<c_char>();
    // SAFETY: SIOCETHTOOL takes an ifreq with a terminated name whose data points to a structure of the command, here
    // an ethtool_value; both outlive the call.
    #[expect(unsafe_code, reason = "no crate of ours knows this ioctl")]
    let outcome = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn request_for(name: &str) -> io::Result<ifreq> {
    // SAFETY: an ifreq consists of integers and pointers, for which zero is a value.
    #[expect(unsafe_code, reason = "it has a union, and so no literal that fills it")]
    let mut request: ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero, for the name must end with one.
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}
