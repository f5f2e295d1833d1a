//! The namespace in which a stack is, and what holds in it.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use ipnet::IpNet;
use nix::sched::{CloneFlags, setns, unshare};

use super::StackError;
use crate::netlink::{Netlink, NetlinkError};
use crate::tun::Tun;

/// The namespace of the network that the calling thread is in.
const OWN: &str = "/proc/thread-self/ns/net";

/// Parameters of TCP in the namespace, beside those of its buffers.
const PARAMETERS: [(&str, &str); 14] = [
    // No addresses and no routes but ours; there is nobody to be asked.
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "0"),
    // Whatever comes in has been forwarded, and its sender may be anybody.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // What the owner writes now and then is a flow that goes on.
    ("net.ipv4.tcp_slow_start_after_idle", "0"),
    // ICMP comes here, and says what is too long.
    ("net.ipv4.tcp_mtu_probing", "0"),
    // Each connection is one of another pair of hosts.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    // A SYN is there because the owner wants it; a cookie would lose its options.
    ("net.ipv4.tcp_syncookies", "0"),
    ("net.ipv4.tcp_max_syn_backlog", "65535"),
    ("net.core.somaxconn", "65535"),
    // A client may use its port again at once, and then the stack does.
    ("net.ipv4.tcp_tw_reuse", "1"),
    // Answers have the code point of the SYN, as most servers' do.
    ("net.ipv4.tcp_reflect_tos", "1"),
    // Room to write means that what was written before is almost gone.
    ("net.ipv4.tcp_notsent_lowat", "131072"),
];

/// A network namespace without a name: it is there for as long as this, or a socket in it.
#[derive(Debug)]
pub(super) struct Namespace(OwnedFd);

impl Namespace {
    /// Makes one; the calling thread is in it from here on.
    pub(super) fn enter_new() -> io::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(Self(File::open(OWN)?.into()))
    }

    /// Calls `make` in it, for what belongs to the namespace in which it was made and is used from any other: sockets.
    ///
    /// It takes two microseconds, for the calling thread goes there and comes back.
    pub(super) fn within<T>(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let home = File::open(OWN)?;
        setns(&self.0, CloneFlags::CLONE_NEWNET)?;
        let made = make();
        let returned = setns(&home, CloneFlags::CLONE_NEWNET);
        assert!(returned.is_ok(), "cannot return to the network namespace of this thread: {returned:?}");
        made
    }
}

/// Sets what TCP does in the namespace of the calling thread.
pub(super) fn set_parameters(buffer: u32) -> Result<(), StackError> {
    for (key, value) in PARAMETERS {
        set(key, value)?;
    }
    // The least, what a connection begins with, the most.
    set("net.ipv4.tcp_rmem", &format!("4096 {} {buffer}", buffer.min(131_072)))?;
    set("net.ipv4.tcp_wmem", &format!("4096 {} {buffer}", buffer.min(65_536)))
}

/// Has all that comes from the device be for this namespace, and all that it sends leave by it.
pub(super) async fn route(tun: &Tun, table: u8) -> Result<(), NetlinkError> {
    let netlink = Netlink::new()?;
    netlink.set_up(netlink.link_index("lo").await?, true).await?;
    for any in [IpAddr::from([0; 4]), IpAddr::from([0u16; 8])] {
        netlink.add_route(IpNet::new_assert(any, 0), tun.index()).await?;
    }
    netlink.take_all_from(tun.name(), table).await
}

/// The kernel shows each thread the parameters of its own namespace. One that it does not know is left out: each came with some
/// version.
fn set(key: &'static str, value: &str) -> Result<(), StackError> {
    let path = Path::new("/proc/sys").join(key.replace('.', "/"));
    match fs::write(path, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|source| StackError::Parameter { key, source }),
    }
}
