//! The two hosts and the links between them.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use ipnet::IpNet;
use psmc_testbed::netns::{Namespace, link_pair};

use crate::kit::programs::{self, Program};

/// The interface at either end of a link.
pub(crate) fn uplink(link: usize) -> String {
    format!("uplink{link}")
}

/// A client and a server, joined by unshaped links.
pub(crate) struct Hosts {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

/// One of them.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    pub(crate) name: &'static str,
    number: u8,
    /// The address that it is to have in a tunnel.
    pub(crate) inner: IpAddr,
}

impl Hosts {
    pub(crate) fn new(links: usize) -> Result<Self, Box<dyn Error>> {
        let client = Host::new("client", 1)?;
        let server = Host::new("server", 2)?;
        for link in 0..links {
            let interface = uplink(link);
            link_pair(&client.namespace, &interface, &server.namespace, &interface)?;
            for host in [&client, &server] {
                host.namespace.add_address(&interface, IpNet::new(host.outer(link), 24)?)?;
            }
        }
        Ok(Self { client, server })
    }
}

impl Host {
    fn new(name: &'static str, number: u8) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            namespace: Namespace::new()?,
            name,
            number,
            inner: Ipv4Addr::new(10, 77, 0, number).into(),
        })
    }

    /// Its address on a link.
    pub(crate) fn outer(&self, link: usize) -> IpAddr {
        Ipv4Addr::new(10, 0, u8::try_from(link).unwrap_or(u8::MAX), self.number).into()
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
