//! No tunnel: what the link and the kernel give.

use std::error::Error;

use super::{Raised, Tunnel};
use crate::hosts::Hosts;

pub(super) struct Direct;

impl Tunnel for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn origin(&self) -> String {
        "the bare veth pair".to_owned()
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        Ok(Raised { server: hosts.server.outer(0), processes: Vec::new(), _parts: Vec::new() })
    }
}
