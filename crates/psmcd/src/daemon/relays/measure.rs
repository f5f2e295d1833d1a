//! How good the paths are that may get another relay, beside the peer's other paths.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_core::{PathState, PathStatus, PeerId, PeerStatus};
use psmc_wire::PathId;

use super::judge::{Comparison, Measured};
use crate::daemon::DaemonError;
use crate::daemon::peers::Peers;
use crate::daemon::plane::PlaneHandle;

/// How often they are looked at.
pub(in crate::daemon) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What was counted by the last look.
#[derive(Debug, Default)]
pub(super) struct Looks {
    counted: BTreeMap<(PeerId, PathId), Counted>,
}

/// What a path has done since it began.
#[derive(Clone, Copy, Debug)]
struct Counted {
    settled: u64,
    lost: u64,
}

impl Looks {
    /// Looks at the paths of peers that have spare relays, and tells their keepers.
    pub(super) async fn look(&mut self, peers: &Peers, plane: &PlaneHandle) -> Result<(), DaemonError> {
        let may_move = |path: &crate::daemon::paths::OpenPath| {
            path.keeper.as_ref().is_some_and(|keeper| keeper.may_move())
        };
        let ids: Vec<_> =
            peers.iter().filter(|peer| peer.paths.iter().any(may_move)).map(|peer| peer.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let asked = ids.clone();
        let statuses = plane.call(move |plane| {
            let status = |id| plane.site.status(id);
            asked.into_iter().map(status).collect::<Vec<_>>()
        });
        for (id, status) in ids.into_iter().zip(statuses.await?) {
            let Some(status) = status else { continue };
            let measured = self.measure(id, &status);
            for (path, seen) in compare(&measured) {
                if let Some(keeper) = peers.keeper(id, path).filter(|keeper| keeper.may_move()) {
                    keeper.measured(seen);
                }
            }
        }
        Ok(())
    }
    /// What the paths that work have done since the last look.
    fn measure(&mut self, peer: PeerId, status: &PeerStatus) -> Vec<(PathId, Measured)> {
        let were_full = status.queued_packets > 0;
        let mut measured = Vec::new();
        let works = |path: &&PathStatus| matches!(path.state, PathState::Active | PathState::Suspect);
        for path in status.paths.iter().filter(works) {
            let now = counted(path);
            let before = self.counted.insert((peer, path.id), now);
            // A session that has begun anew counts from the beginning; the next look has both.
            let before = before.filter(|before| before.settled <= now.settled && before.lost <= now.lost);
            let since = |of: fn(&Counted) -> u64| before.map_or(0, |before| of(&now) - of(&before));
            measured.push((
                path.id,
                Measured {
                    settled: since(|counted| counted.settled),
                    lost: since(|counted| counted.lost),
                    rtt: path.min_rtt,
                    rate: path.rate.filter(|_| were_full),
                },
            ));
        }
        measured
    }
}

/// Both directions: what was sent, by acknowledgements; what was received, by its numbers.
fn counted(path: &PathStatus) -> Counted {
    let missing = path.received_numbers.saturating_sub(path.received.packets);
    let counters = &path.counters;
    Counted {
        settled: counters.lost_packets + counters.acked_packets + path.received_numbers,
        lost: counters.lost_packets + missing,
    }
}

/// Each path beside the others.
fn compare(measured: &[(PathId, Measured)]) -> impl Iterator<Item = (PathId, Comparison)> {
    measured.iter().map(|&(id, own)| {
        let others = measured.iter().filter(|(other, _)| *other != id).map(|(_, measured)| measured);
        let rtts: Vec<_> = others.clone().filter_map(|other| other.rtt).collect();
        let rates: Vec<_> = others.clone().filter_map(|other| other.rate).collect();
        let count = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
        let others = Measured {
            settled: others.clone().map(|other| other.settled).sum(),
            lost: others.map(|other| other.lost).sum(),
            rtt: (!rtts.is_empty()).then(|| rtts.iter().sum::<Duration>() / count(rtts.len())),
            rate: (!rates.is_empty()).then(|| rates.iter().sum::<u64>() / rates.len() as u64),
        };
        (id, Comparison { own, others })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_compared_with_all_others_together() {
        let measured =
            |settled, lost, ms, rate| Measured { settled, lost, rtt: Some(Duration::from_millis(ms)), rate };
        let paths = [
            (PathId(0), measured(10, 5, 90, Some(1))),
            (PathId(2), measured(100, 1, 20, None)),
            (PathId(4), measured(50, 2, 40, Some(4))),
        ];
        let first = compare(&paths).next().unwrap();
        let others = measured(150, 3, 30, Some(4));
        assert_eq!(first, (PathId(0), Comparison { own: paths[0].1, others }));
        let alone = compare(&paths[..1]).next().unwrap().1;
        assert_eq!(alone.others, Measured::default());
    }
}
