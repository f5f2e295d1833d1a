//! With which relays a site registers: those of the configuration, and those that were named while it runs.

use psmc_net::udp::UdpBind;
use psmc_toml::ValueError;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::grants::GrantsFor;
use super::known::Relays;
use super::reach::LocalEnd;
use super::registration::{Registration, RegistrationSpec, Standing, Uplink};
use crate::config::{InterfaceName, Name, Relay};
use crate::daemon::paths::{LISTEN_SOCKET, Sockets};
use crate::daemon::routes::{endpoint, key, name_of};
use crate::daemon::tasks::Tasks;
use psmc_api::{RegisterSpec, RegistrationStatus};

/// Most relays that can be named while the site runs: as many as one mitigation has for all groups of clients.
pub(super) const MAX_ADDED: usize = 1024;

/// A registration, and why there is one.
#[derive(Debug)]
pub(in crate::daemon) struct Registered {
    registration: Registration,
    /// What was asked for while the site runs; `None` if the configuration does.
    added: Option<Added>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Added {
    relay: Relay,
    local_end: LocalEnd,
}

impl Relays {
    /// Registers with the relays of these names, which are those of the configuration, and leaves others. Those of `changed` are
    /// others than before.
    pub(in crate::daemon) fn register(
        &mut self,
        names: &[Name],
        changed: &BTreeSet<Name>,
        tasks: &mut Tasks,
    ) {
        let wanted: Vec<_> =
            self.known().iter().filter(|relay| names.contains(&relay.name)).cloned().collect();
        let is_wanted =
            |name: &Name| !changed.contains(name) && wanted.iter().any(|relay| relay.name == *name);
        self.registrations.retain(|known| known.added.is_some() || is_wanted(&known.registration.relay));
        for relay in wanted {
            let is_kept =
                |known: &Registered| known.added.is_none() && known.registration.relay == relay.name;
            if !self.registrations.iter().any(is_kept) {
                let uplink = Uplink { local_end: LocalEnd::default(), socket: LISTEN_SOCKET, bind: None };
                self.start_registration(relay, uplink, None, tasks);
            }
        }
    }

    /// Registers with these relays beside those of the configuration, and leaves others.
    pub(in crate::daemon) fn set_registrations(
        &mut self,
        (specs, grants): (&[RegisterSpec], &[String]),
        configured: &[Name],
        sockets: &mut Sockets,
        tasks: &mut Tasks,
    ) -> Result<(), ValueError> {
        let wanted = self.added_by(specs, configured)?;
        self.grants().put(GrantsFor::Registrations, grants)?;
        let stays =
            |registered: &Registered| registered.added.as_ref().is_none_or(|added| wanted.contains(added));
        self.registrations.retain(stays);
        for added in wanted {
            let is_there =
                self.registrations.iter().any(|registered| registered.added.as_ref() == Some(&added));
            if !is_there {
                let uplink = uplink(&added, sockets);
                self.start_registration(added.relay.clone(), uplink, Some(added), tasks);
            }
        }
        Ok(())
    }

    /// How it stands with all of them.
    pub(in crate::daemon) fn registration_statuses(&self) -> Vec<RegistrationStatus> {
        self.registrations.iter().map(status).collect()
    }

    /// Has the relays asked whether they live.
    pub(in crate::daemon) fn doubt(&self) {
        self.registrations.iter().for_each(|registered| registered.registration.doubt());
    }

    fn start_registration(&mut self, relay: Relay, uplink: Uplink, added: Option<Added>, tasks: &mut Tasks) {
        let (registration, work) = Registration::new(RegistrationSpec {
            caller: self.caller(),
            relay,
            uplink,
            acceptor: self.door.acceptor.clone(),
            callers: self.door.callers.clone(),
            plane: self.plane(),
        });
        self.registrations.push(Registered { registration, added });
        tasks.spawn_registration(work);
    }

    /// What these ask for, but for relays with which the site registers anyway.
    fn added_by(&self, specs: &[RegisterSpec], configured: &[Name]) -> Result<Vec<Added>, ValueError> {
        if specs.len() > MAX_ADDED {
            let reason = format!("{} relays are too many: {MAX_ADDED} can be added", specs.len());
            return Err(ValueError::new(reason, "leave some out, or write them into the configuration"));
        }
        let addresses: BTreeSet<_> = specs.iter().map(|spec| spec.address).collect();
        let keys: BTreeSet<_> = specs.iter().map(|spec| &spec.public_key).collect();
        if addresses.len() < specs.len() || keys.len() < specs.len() {
            return Err(ValueError::new("a relay is named twice", "leave one of the two out"));
        }
        let added: Vec<_> = specs.iter().map(|spec| self.added(spec)).collect::<Result<_, _>>()?;
        let is_configured = |added: &Added| {
            let same = |relay: &&Relay| relay.public_key == added.relay.public_key;
            self.known().iter().filter(same).any(|relay| configured.contains(&relay.name))
        };
        Ok(added.into_iter().filter(|added| !is_configured(added)).collect())
    }

    fn added(&self, spec: &RegisterSpec) -> Result<Added, ValueError> {
        let public_key = key(&spec.public_key)?;
        let known = self.known().iter().find(|relay| relay.public_key == public_key);
        let name = known.map_or_else(|| name_of(spec.address), |relay| Ok(relay.name.clone()))?;
        let relay = Relay { name, address: endpoint(spec.address)?, public_key };
        if spec.local.is_some_and(|local| local.is_ipv4() != spec.address.is_ipv4()) {
            let reason = format!(
                "the relay at {} cannot be reached from an address of the other IP version",
                spec.address
            );
            return Err(ValueError::new(
                reason,
                "give both the same version, or leave the local address out",
            ));
        }
        let interface: Option<InterfaceName> = spec.interface.as_deref().map(str::parse).transpose()?;
        let local_end =
            LocalEnd { interface: interface.map(|name| name.as_str().to_owned()), local: spec.local };
        Ok(Added { relay, local_end })
    }
}

/// The uplink that was asked for: a socket of its own, unless it is left to the routes.
fn uplink(added: &Added, sockets: &mut Sockets) -> Uplink {
    let local_end = added.local_end.clone();
    if local_end == LocalEnd::default() {
        return Uplink { local_end, socket: LISTEN_SOCKET, bind: None };
    }
    let is_ipv4 = added.relay.address.socket_addr().is_none_or(|address| address.is_ipv4());
    let any: IpAddr = if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let address = SocketAddr::new(local_end.local.unwrap_or(any), 0);
    let bind = UdpBind { address, interface: local_end.interface.clone() };
    Uplink { local_end, socket: sockets.number(), bind: Some(bind) }
}

fn status(registered: &Registered) -> RegistrationStatus {
    let Standing { is_registered, error } = registered.registration.standing();
    RegistrationStatus {
        relay: registered.registration.relay.to_string(),
        public_key: registered.registration.public_key.to_string(),
        registered: is_registered,
        error,
        added: registered.added.as_ref().map(|added| added.relay.address.to_string()),
    }
}
