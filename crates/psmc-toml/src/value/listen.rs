//! Where a site listens.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Form, Port, Setting, ValueError};

/// Where a site listens: UDP for data, TCP for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The local address; `None` is every one, of both families.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: Port,
}

impl Listen {
    /// The address to bind: `[::]` for every one, which takes IPv4 as well on a dual-stack socket.
    pub fn socket_addr(self) -> SocketAddr {
        SocketAddr::new(self.address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), self.port.get())
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self { address: None, port: Port::DEFAULT }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => write!(f, "port {} of every address", self.port),
            Some(_) => self.socket_addr().fmt(f),
        }
    }
}

impl FromStr for Listen {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Self { address: None, port: text.parse()? });
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            let remedy = "write a port, 5115, or a local address and a port, \"192.0.2.7:5115\" or \"[2001:db8::7]:5115\"";
            ValueError::new(format!("{text:?} is nothing to listen on"), remedy)
        })?;
        let port = address.port().to_string().parse()?;
        let ip = address.ip();
        Ok(Self { address: (ip != IpAddr::V6(Ipv6Addr::UNSPECIFIED)).then_some(ip), port })
    }
}

impl Setting for Listen {
    const FORM: Form = Form::TextOrNumber;
    const EXAMPLE: &'static str = "5115";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_on_one_or_every_address() {
        assert_eq!("5115".parse::<Listen>().unwrap(), Listen::default());
        assert_eq!("[::]:5115".parse::<Listen>().unwrap(), Listen::default());
        let one = "192.0.2.7:99".parse::<Listen>().unwrap();
        assert_eq!(one.socket_addr().to_string(), "192.0.2.7:99");
        for bad in ["", "0", "65536", ":5115", "192.0.2.7", "192.0.2.7:0", "hq:5115"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?}");
        }
    }
}
