//! Clients that look at inner packets.

use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use psmc_api::{CaptureSpec, Captured, CapturedPacket, PacketSpec, Response};
use psmc_core::{ClassMatch, PeerError, TapConfig, Tapped};

use super::DaemonError;
use super::control::Control;
use super::requests::Refusal;

/// A client that has not asked for so long is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who looks on.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// When the client has last asked, while there is one.
    asked_at: Option<Instant>,
}

impl Control {
    /// Has packets kept for a client that looks on, unless another one does.
    pub(super) async fn start_capture(&mut self, spec: &CaptureSpec) -> Result<(), Refusal> {
        self.end_idle_capture().await.map_err(Refusal::Ends)?;
        if self.captures.asked_at.is_some() {
            return Err(Response::error("another client captures already; end that one").into());
        }
        let packets = spec.packets.iter().map(wanted).collect::<Result<_, _>>()?;
        let peer = spec.peer.as_deref().map(|name| self.peers.find(name)).transpose()?;
        let peer = peer.map(|index| self.peers[index].id);
        let name = spec.path.clone();
        let started = self.plane.call(move |plane| {
            let path = match (peer, name) {
                (Some(peer), Some(name)) => Some(plane.site.peer(peer)?.path_named(&name)?.id()),
                (None, _) | (_, None) => None,
            };
            plane.site.set_tap(Some(TapConfig { peer, path, packets }));
            Ok(())
        });
        let started: Result<(), PeerError> = started.await.map_err(Refusal::Ends)?;
        started.map_err(|error| Refusal::of(&error))?;
        self.captures.asked_at = Some(Instant::now());
        Ok(())
    }

    /// What has passed since the client last asked.
    pub(super) async fn next_captured(&mut self) -> Result<Captured, Refusal> {
        if self.captures.asked_at.is_none() {
            return Err(Response::error("nothing is captured (any more); begin again").into());
        }
        self.captures.asked_at = Some(Instant::now());
        let taken = self.plane.call(|plane| {
            let (packets, dropped) = plane.site.take_tapped();
            let name = |tapped: &Tapped| {
                let label = plane.site.path_label(tapped.passage.peer, tapped.passage.path);
                label.map_or_else(String::new, |(name, _)| name.to_owned())
            };
            let packets: Vec<_> = packets.into_iter().map(|tapped| (name(&tapped), tapped)).collect();
            (packets, dropped)
        });
        let (packets, dropped) = taken.await.map_err(Refusal::Ends)?;
        let (now, clock) = (Instant::now(), SystemTime::now());
        let packets = packets.into_iter().map(|(path, Tapped { at, passage, packet })| CapturedPacket {
            unix_ns: unix_ns(clock - now.saturating_duration_since(at)),
            peer: self.peers.get(passage.peer).map_or_else(String::new, |peer| peer.config.name.to_string()),
            path,
            sent: passage.is_sent,
            packet,
        });
        Ok(Captured { packets: packets.collect(), dropped })
    }

    /// Keeps no more packets.
    pub(super) async fn stop_capture(&mut self) -> Result<(), DaemonError> {
        self.captures.asked_at = None;
        self.plane.post(|plane| plane.site.set_tap(None)).await
    }

    /// Keeps no more packets for a client that is gone.
    pub(super) async fn end_idle_capture(&mut self) -> Result<(), DaemonError> {
        let is_idle = self.captures.asked_at.is_some_and(|at| at.elapsed() > PATIENCE);
        if is_idle { self.stop_capture().await } else { Ok(()) }
    }
}

fn wanted(spec: &PacketSpec) -> Result<ClassMatch, Refusal> {
    let networks = |net: &Option<String>| -> Result<Vec<IpNet>, Refusal> {
        let net = net.as_ref().map(|net| net.parse());
        net.transpose()
            .map(|net| net.into_iter().collect())
            .map_err(|error: ipnet::AddrParseError| Refusal::of(&error))
    };
    Ok(ClassMatch {
        dscp: 0,
        protocols: spec.protocols.clone(),
        ports: spec.port.map(|port| port..=port).into_iter().collect(),
        sources: networks(&spec.from)?,
        destinations: networks(&spec.to)?,
    })
}

fn unix_ns(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
