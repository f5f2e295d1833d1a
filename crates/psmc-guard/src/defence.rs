//! The filter of the hidden lines: a table of nftables that lets nobody in but relays.
//!
//! Everything that it does is in one table of its own, which is made as a whole, changed as a whole and removed at the
//! end. Other tables are not touched; what they drop stays dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use psmc_net::nft::{NftError, nft, replacing, table_name};
use psmc_toml::{InterfaceName, Name};
use serde::Deserialize;
use thiserror::Error;

/// Why the lines are not defended.
#[derive(Debug, Error)]
pub enum DefenceError {
    /// There is no nftables, or it refuses.
    #[error("cannot set up `nftables` of [defence]")]
    Nft(#[from] NftError),
    /// The counters are not what they should be.
    #[error("unexpected output of `nft -j`")]
    Malformed(#[from] serde_json::Error),
}

/// The filter. It is removed when this is dropped.
#[derive(Debug)]
pub struct Defence {
    table: String,
    always: Vec<IpNet>,
    admitted: BTreeSet<IpAddr>,
}

impl Defence {
    /// Makes the filter for the hidden lines with these interfaces: `always` are relays that are let in from the start.
    ///
    /// # Errors
    /// [`DefenceError`].
    pub fn set_up(
        name: &Name,
        interfaces: &[InterfaceName],
        always: Vec<IpNet>,
    ) -> Result<Self, DefenceError> {
        let defence = Self { table: table_of(name), always, admitted: BTreeSet::new() };
        nft(&["-f", "-"], &defence.rules(interfaces))?;
        Ok(defence)
    }

    /// Changes the filter to other interfaces and other relays, without a gap; those that were admitted still are.
    ///
    /// # Errors
    /// [`DefenceError`]; then there is none any more.
    pub fn renew(self, interfaces: &[InterfaceName], always: Vec<IpNet>) -> Result<Self, DefenceError> {
        let mut defence = self;
        defence.always = always;
        nft(&["-f", "-"], &defence.rules(interfaces))?;
        Ok(defence)
    }

    /// Lets these relays in, and no others.
    ///
    /// # Errors
    /// [`DefenceError`]; what was let in before still is.
    pub fn admit(&mut self, relays: BTreeSet<IpAddr>) -> Result<(), DefenceError> {
        if relays == self.admitted {
            return Ok(());
        }
        let mut script = String::new();
        // A transaction: nobody sees the sets empty.
        for set in [Set::V4, Set::V6] {
            let elements = self.elements(set, &relays);
            // Writing to a string does not fail.
            let _ = writeln!(script, "flush set inet {} {}", self.table, set.name());
            if !elements.is_empty() {
                let _ = writeln!(script, "add element inet {} {} {{ {elements} }}", self.table, set.name());
            }
        }
        nft(&["-f", "-"], &script)?;
        self.admitted = relays;
        Ok(())
    }

    /// The table as nftables reads it. One that an earlier guard of the same name has left is replaced, in the same
    /// transaction.
    fn rules(&self, interfaces: &[InterfaceName]) -> String {
        let table = &self.table;
        let interfaces: Vec<String> = interfaces.iter().map(|name| format!("\"{name}\"")).collect();
        let interfaces = interfaces.join(", ");
        let sets = [Set::V4, Set::V6].map(|set| {
            let elements = self.elements(set, &self.admitted);
            let elements =
                if elements.is_empty() { String::new() } else { format!("elements = {{ {elements} }};") };
            format!("set {} {{ type {}; flags interval; {elements} }}", set.name(), set.kind())
        });
        let [v4, v6] = sets;
        // Behind connection tracking (-200), which knows replies to what this machine has sent.
        let script = format!(
            "table inet {table} {{\n\
             {v4}\n\
             {v6}\n\
             counter from_relays {{ }}\n\
             counter replies {{ }}\n\
             counter dropped {{ }}\n\
             chain hidden_lines {{\n\
             type filter hook prerouting priority mangle; policy accept;\n\
             iifname {{ {interfaces} }} meta l4proto {{ tcp, udp }} jump only_relays\n\
             }}\n\
             chain only_relays {{\n\
             ip saddr @relays4 counter name from_relays return\n\
             ip6 saddr @relays6 counter name from_relays return\n\
             ct state established,related counter name replies return\n\
             counter name dropped drop\n\
             }}\n\
             }}\n"
        );
        replacing(table, Some(&script))
    }

    fn elements(&self, set: Set, relays: &BTreeSet<IpAddr>) -> String {
        let nets = self.always.iter().copied().chain(relays.iter().map(|relay| IpNet::from(*relay)));
        let nets = IpNet::aggregate(&nets.collect::<Vec<_>>());
        let of_set =
            nets.iter().filter(|net| matches!((set, net), (Set::V4, IpNet::V4(_)) | (Set::V6, IpNet::V6(_))));
        of_set.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl Drop for Defence {
    fn drop(&mut self) {
        if let Err(error) = nft(&["delete", "table", "inet", &self.table], "") {
            tracing::warn!(
                error = crate::error_chain(&error),
                "cannot remove the filter of the hidden lines"
            );
        }
    }
}

/// The packets that each rule of the filter of this name has seen: `from_relays`, `replies`, `dropped`.
///
/// # Errors
/// [`DefenceError`], most often because there is no such filter.
pub fn counters(name: &Name) -> Result<BTreeMap<String, u64>, DefenceError> {
    let output = nft(&["-j", "list", "counters", "table", "inet", &table_of(name)], "")?;
    let listing: Listing = serde_json::from_slice(&output.stdout)?;
    let counters = listing.nftables.into_iter().filter_map(|object| object.counter);
    Ok(counters.map(|counter| (counter.name, counter.packets)).collect())
}

#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    counter: Option<Counter>,
}

#[derive(Deserialize)]
struct Counter {
    name: String,
    packets: u64,
}

#[derive(Clone, Copy)]
enum Set {
    V4,
    V6,
}

impl Set {
    fn name(self) -> &'static str {
        match self {
            Self::V4 => "relays4",
            Self::V6 => "relays6",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::V4 => "ipv4_addr",
            Self::V6 => "ipv6_addr",
        }
    }
}

/// The name of the table.
fn table_of(name: &Name) -> String {
    table_name("psmc_guard", name.as_str())
}

#[cfg(test)]
mod tests {
    use psmc_testbed::netns::Namespace;

    use super::*;

    fn relays(addresses: &[&str]) -> BTreeSet<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn tables() -> String {
        String::from_utf8(nft(&["list", "ruleset"], "").unwrap().stdout).unwrap()
    }

    #[test]
    fn the_filter_is_made_changed_and_removed_as_a_whole() {
        Namespace::new().expect("this test needs root").run(|| {
            nft(&["add", "table", "inet", "others"], "").unwrap();
            let name: Name = "hq-2.a".parse().unwrap();
            let interfaces = ["eth1".parse().unwrap(), "eth2".parse().unwrap()];
            let always = vec!["198.51.100.0/28".parse().unwrap()];
            let mut defence = Defence::set_up(&name, &interfaces, always.clone()).unwrap();
            assert!(tables().contains("198.51.100.0/28"), "{}", tables());
            defence.admit(relays(&["203.0.113.1", "203.0.113.2", "198.51.100.3", "2001:db8::1"])).unwrap();
            for there in ["203.0.113.1", "203.0.113.2", "2001:db8::1", "198.51.100.0/28", "eth2"] {
                assert!(tables().contains(there), "{there}: {}", tables());
            }
            defence.admit(relays(&["203.0.113.2"])).unwrap();
            assert!(!tables().contains("203.0.113.1") && !tables().contains("2001:db8::1"), "{}", tables());
            let zeros = ["dropped", "from_relays", "replies"].map(|counter| (counter.to_owned(), 0));
            assert_eq!(counters(&name).unwrap(), BTreeMap::from(zeros));
            // What was left by one that has crashed.
            std::mem::forget(defence);
            let defence = Defence::set_up(&name, &interfaces, always).unwrap();
            assert!(!tables().contains("203.0.113.2"), "{}", tables());
            drop(defence);
            assert_eq!(tables().trim(), "table inet others {\n}");
            assert!(matches!(counters(&name), Err(DefenceError::Nft(NftError::Refused(_)))));
        });
    }
}
