//! Interfaces and addresses that come and go under the paths.

use std::mem;
use std::time::Instant;

use psmc_net::netlink::{LinkState, NetworkEvent};

use super::DaemonError;
use super::control::Control;
use super::network::remotes;
use super::paths::{OpenPath, bind_port};
use super::plane::Plane;
use super::tunnels::PortError;

impl Control {
    /// Follows the kernel's interfaces: a path whose link is down is dead at once, one whose link is back is
    /// probed at once, on a new socket if the interface is a new one.
    pub(super) async fn on_network_event(&mut self, event: NetworkEvent) -> Result<(), DaemonError> {
        self.network.note_event(&event, remotes(&self.names, &self.peers));
        match event {
            NetworkEvent::Link(link) if self.network.is_interface(link.index) => Ok(()),
            NetworkEvent::Link(link) => self.on_link(&link).await,
            NetworkEvent::AddressChanged { .. } => {
                self.rest_without_address().await?;
                self.look_at_called_addresses().await?;
                self.refresh_unbound().await
            }
            NetworkEvent::RouteChanged { .. } | NetworkEvent::RoutingChanged => Ok(()),
        }
    }

    async fn on_link(&mut self, link: &LinkState) -> Result<(), DaemonError> {
        let up = link.up;
        self.retry_paths |= up;
        self.lose_renamed(link).await?;
        for path in self.peers.paths_mut() {
            if !path.uses_interface(&link.name) {
                continue;
            }
            // The kernel tells of an interface once more whatever changes about it, and when it goes.
            if path.told_link.replace(up) != Some(up) {
                tracing::info!(interface = link.name, path = path.settings.name.as_str(), up, "link changed");
            }
            let known = path.interface_index == Some(link.index);
            path.is_idle &= !up;
            if up {
                path.interface_index = Some(link.index);
                path.has_no_address = path.lacks_address();
            }
            let up = up && path.may_be_used();
            let (socket, bind) = (path.socket, path.bind());
            let follow = move |plane: &mut Plane| match bind {
                Some(bind) if up && !(known && plane.is_open(socket)) => {
                    log_bind(bind_port(plane, socket, &bind))
                }
                Some(_) | None => plane.site.handle_link(socket, up, Instant::now()),
            };
            self.plane.post(follow).await?;
        }
        Ok(())
    }

    /// Suspends paths whose interface has no address: the kernel would have them come from one in the tunnel. They lead to another of
    /// their peer's addresses, if there is one that they can reach from an address that they have.
    pub(super) async fn rest_without_address(&mut self) -> Result<(), DaemonError> {
        let (mut resting, mut back, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for peer in self.peers.iter_mut() {
            for path in &mut peer.paths {
                let lacks = path.lacks_address();
                match (mem::replace(&mut path.has_no_address, lacks), lacks) {
                    (false, true) => resting.push((path.socket, path.sockets())),
                    (true, false) => {
                        back.push((path.interface_index, path.socket, path.bind(), path.may_be_used()));
                    }
                    (true, true) | (false, false) => {}
                }
                if lacks && !path.is_idle {
                    lost.push((peer.id, path.id));
                }
            }
        }
        for (socket, sockets) in resting {
            let rest = move |plane: &mut Plane| {
                plane.site.handle_link(socket, false, Instant::now());
                // What is still to be sent goes nowhere.
                sockets.for_each(|socket| plane.close_port(socket));
            };
            self.plane.post(rest).await?;
        }
        for (index, socket, bind, may_be_used) in back {
            let up = may_be_used && self.network.is_up(index).await?;
            let wake = move |plane: &mut Plane| {
                bind.into_iter().for_each(|bind| log_bind(bind_port(plane, socket, &bind)));
                if !up {
                    plane.site.handle_link(socket, false, Instant::now());
                }
            };
            self.plane.post(wake).await?;
        }
        for path in lost {
            self.ask_for_another(path);
        }
        Ok(())
    }

    /// A path that is bound to a link by a name waits for another link, once that one is called otherwise.
    async fn lose_renamed(&mut self, link: &LinkState) -> Result<(), DaemonError> {
        let paths = self.peers.paths_mut();
        let was = |path: &&mut OpenPath| {
            path.interface_index == Some(link.index) && !path.uses_interface(&link.name)
        };
        for path in paths.filter(was) {
            path.interface_index = None;
            tracing::info!(
                path = path.settings.name.as_str(),
                now = link.name,
                "its interface has another name"
            );
            let socket = path.socket;
            self.plane.post(move |plane| plane.site.handle_link(socket, false, Instant::now())).await?;
        }
        Ok(())
    }

    /// Binds again the sockets of paths with an address of their own, which may have come back.
    async fn refresh_unbound(&mut self) -> Result<(), DaemonError> {
        self.retry_paths = true;
        let paths: Vec<_> =
            self.peers.paths().filter(|path| path.settings.address.is_some()).cloned().collect();
        for path in paths {
            let Some(bind) = path.bind() else { continue };
            self.plane.post(move |plane| log_bind(bind_port(plane, path.socket, &bind))).await?;
        }
        Ok(())
    }
}

fn log_bind(bound: Result<(), PortError>) {
    if let Err(error) = bound {
        tracing::debug!(
            error = crate::error_chain(&error),
            "a path still waits for its interface or address"
        );
    }
}
