//! The two hosts and the link between them.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use ipnet::IpNet;
use psmc_net::netns::{Namespace, link_pair};

use crate::kit::programs::{self, Program};

/// The interface by which either host reaches the other.
pub(crate) const UPLINK: &str = "uplink";

/// A client and a server, joined by one unshaped link.
pub(crate) struct Hosts {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

/// One of them.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) name: &'static str,
    /// Its address on the link.
    pub(crate) outer: IpAddr,
    /// The address that it is to have in a tunnel.
    pub(crate) inner: IpAddr,
}

impl Hosts {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let client = Host::new("client", 1)?;
        let server = Host::new("server", 2)?;
        link_pair(&client.namespace, UPLINK, &server.namespace, UPLINK)?;
        for host in [&client, &server] {
            host.namespace.add_address(UPLINK, IpNet::new(host.outer, 24)?)?;
        }
        Ok(Self { client, server })
    }
}

impl Host {
    fn new(name: &'static str, number: u8) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            namespace: Namespace::new()?,
            name,
            outer: Ipv4Addr::new(10, 0, 0, number).into(),
            inner: Ipv4Addr::new(10, 77, 0, number).into(),
        })
    }

    /// Runs a program on the host to its end and returns what it prints.
    pub(crate) fn output(&self, command: &mut Command) -> Result<String, Box<dyn Error>> {
        programs::output(&self.namespace, command)
    }

    /// Starts a program on the host, and ends it when the value is dropped.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Program, Box<dyn Error>> {
        programs::start(&self.namespace, command)
    }
}
