//! Inner TCP connections are told to send packets that fit into the datagrams of all paths.
//!
//! An MSS says what its sender wants to receive. So the one that comes from the peer bounds what this side will send,
//! over paths whose datagrams this side knows. The one that goes to the peer bounds what the peer will send; that its
//! datagrams are as large as ours is a guess, and the peer corrects it if it clamps, too.

use psmc_wire::PacketBuf;

use super::Session;
use crate::mss::{ClampMss, MssOption};
use crate::path::Path;
use crate::shared::Shared;

impl Session {
    /// Lowers the MSS that `packet` states, if it is a SYN, as the site is configured.
    pub(super) fn clamp_mss(&mut self, packet: &mut PacketBuf, shared: &Shared) {
        if let Some((option, limit)) = self.mss_to_lower(packet.packet(), shared.clamp_mss) {
            let checksum = packet.checksum();
            option.replace(packet.packet_mut(), checksum, limit);
            self.counters.mss_lowered += 1;
        }
    }

    /// The MSS in `packet` if it is too large, and what it should be.
    fn mss_to_lower(&self, packet: &[u8], clamp: ClampMss) -> Option<(MssOption, u16)> {
        let (option, limit) = match clamp {
            ClampMss::Off => return None,
            ClampMss::Auto => {
                let option = MssOption::find(packet)?;
                (option, option.within(self.least_room()?))
            }
            ClampMss::To(limit) => (MssOption::find(packet)?, limit),
        };
        (limit < option.value).then_some((option, limit))
    }

    /// The largest inner packet that every path carries in one piece which may carry data.
    pub(crate) fn least_room(&self) -> Option<usize> {
        self.paths.iter().filter(|path| path.rank().is_some()).map(Path::expected_room).min()
    }
}
