//! From what is so to what is to be so.

use std::collections::BTreeMap;

use psmc_api::{RegisterSpec, Status};
use psmc_signal::Client;

use crate::config::Line;
use crate::duty::{Registration, Wanted};

/// What psmcd has been told and has done, as far as is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    /// Nothing is known before the first time.
    pub(super) registrations: Option<Vec<Registration>>,
    pub(super) clients: BTreeMap<String, Client>,
}

/// One thing to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Register(Vec<Registration>),
    Remove(String),
    Add(Client),
}

/// What is to be asked for, the most urgent first.
pub(super) fn steps(applied: &Applied, wanted: &Wanted) -> Vec<Step> {
    let mut steps = Vec::new();
    if applied.registrations.as_ref() != Some(&wanted.registrations) {
        steps.push(Step::Register(wanted.registrations.clone()));
    }
    let is_wanted = |name: &String, client: &Client| wanted.clients.get(name) == Some(client);
    let gone = applied.clients.iter().filter(|(name, client)| !is_wanted(name, client));
    steps.extend(gone.map(|(name, _)| Step::Remove(name.clone())));
    let is_there = |name: &String, client: &Client| applied.clients.get(name) == Some(client);
    let new = wanted.clients.iter().filter(|(name, client)| !is_there(name, client));
    steps.extend(new.map(|(_, client)| Step::Add(client.clone())));
    steps
}

impl Applied {
    /// What a psmcd that was just met has of what is wanted: the peers of its configuration, and those of an earlier time.
    /// Other peers are nobody's business here.
    pub(super) fn found(status: &Status, wanted: &Wanted) -> Self {
        let known = status.peers.iter().filter_map(|peer| {
            let client = wanted.clients.get(&peer.name)?;
            (client.public_key == peer.public_key).then(|| {
                let allowed_ips = if same(&peer.allowed_ips, &client.allowed_ips) || !peer.added {
                    client.allowed_ips.clone()
                } else {
                    peer.allowed_ips.clone()
                };
                (peer.name.clone(), Client { allowed_ips, ..client.clone() })
            })
        });
        Self { registrations: None, clients: known.collect() }
    }

    /// A step was done.
    pub(super) fn done(&mut self, step: Step) {
        match step {
            Step::Register(registrations) => self.registrations = Some(registrations),
            Step::Remove(name) => drop(self.clients.remove(&name)),
            Step::Add(client) => drop(self.clients.insert(client.name.clone(), client)),
        }
    }
}

fn same(one: &[String], other: &[String]) -> bool {
    let sorted = |list: &[String]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    sorted(one) == sorted(other)
}

/// A registration as psmcd takes it.
pub(super) fn spec(registration: &Registration, lines: &[Line]) -> RegisterSpec {
    let line = registration.line.and_then(|number| lines.get(number));
    RegisterSpec {
        address: registration.relay.address,
        public_key: registration.relay.public_key.clone(),
        local: line.and_then(|line| line.address),
        interface: line.map(|line| line.interface.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use psmc_signal::RelayOffer;

    use super::*;

    fn client(name: &str, key: &str) -> Client {
        Client { name: name.to_owned(), public_key: key.to_owned(), allowed_ips: Vec::new() }
    }

    fn wanted(relays: &[u8], clients: &[(&str, &str)]) -> Wanted {
        let registration = |number: &u8| Registration {
            relay: RelayOffer {
                name: format!("r{number}"),
                address: format!("198.51.100.{number}:5115").parse().unwrap(),
                public_key: format!("key{number}"),
                grant: None,
            },
            line: None,
        };
        let clients = clients.iter().map(|(name, key)| ((*name).to_owned(), client(name, key)));
        Wanted { registrations: relays.iter().map(registration).collect(), clients: clients.collect() }
    }

    fn go(applied: &mut Applied, wanted: &Wanted) -> Vec<Step> {
        let steps = steps(applied, wanted);
        steps.iter().cloned().for_each(|step| applied.done(step));
        steps
    }

    #[test]
    fn only_what_differs_is_asked_for() {
        let mut applied = Applied::default();
        // At the start even nothing is said: what an earlier guard has left ends.
        assert_eq!(go(&mut applied, &Wanted::default()), [Step::Register(Vec::new())]);
        assert_eq!(go(&mut applied, &Wanted::default()), []);
        let first = wanted(&[1], &[("ann", "a"), ("bob", "b")]);
        let all = [
            Step::Register(first.registrations.clone()),
            Step::Add(client("ann", "a")),
            Step::Add(client("bob", "b")),
        ];
        assert_eq!(go(&mut applied, &first), all);
        assert_eq!(go(&mut applied, &first), []);
        let changed =
            [Step::Remove("ann".to_owned()), Step::Remove("bob".to_owned()), Step::Add(client("bob", "c"))];
        assert_eq!(go(&mut applied, &wanted(&[1], &[("bob", "c")])), changed);
    }

    #[test]
    fn a_line_gives_address_and_interface() {
        let line = Line { interface: "eth1".parse().unwrap(), address: Some("192.0.2.7".parse().unwrap()) };
        let mut registration = wanted(&[1], &[]).registrations.remove(0);
        assert_eq!(spec(&registration, std::slice::from_ref(&line)).interface, None);
        registration.line = Some(0);
        let spec = spec(&registration, &[line]);
        assert_eq!(
            (spec.interface.as_deref(), spec.local),
            (Some("eth1"), Some("192.0.2.7".parse().unwrap()))
        );
    }
}
