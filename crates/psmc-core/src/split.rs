//! Inner packets that are larger than the datagrams of a path: cut into parts where they leave, joined where they
//! arrive.

mod assembly;

use psmc_wire::BufPool;
use psmc_wire::frame::{PART_OVERHEAD, Part};

pub(crate) use assembly::Assembly;
pub use assembly::AssemblyCounters;

use crate::egress::{Queued, Role};

/// Makes `first` fit where a whole packet has room for `room` bytes: what is too much is taken off its end and
/// comes back as a part of its own, which may have to be cut again. `None` if `first` fits as it is, or is a repair, of
/// which there are no parts.
pub(crate) fn cut(first: &mut Queued, room: usize, pool: &mut BufPool) -> Option<Queued> {
    let len = first.packet.len();
    if first.len_in_frame() <= room || first.role == Role::Repair {
        return None;
    }
    let kept = u16::try_from(room.checked_sub(PART_OVERHEAD)?).ok().filter(|&kept| kept > 0)?;
    let whole = Part { offset: 0, total: u16::try_from(len).ok()? };
    let Part { offset, total } = first.part.unwrap_or(whole);
    let mut packet = pool.take();
    packet.fill(&first.packet.packet()[usize::from(kept)..]);
    packet.set_checksum(first.packet.checksum());
    first.packet.set_len(kept.into());
    first.part = Some(Part { offset, total });
    let part = Some(Part { offset: offset + kept, total });
    let Queued { bucket, class, seq, ordered, role, queued_at, .. } = *first;
    Some(Queued { packet, part, bucket, class, seq, ordered, role, queued_at })
}

#[cfg(test)]
mod tests;
