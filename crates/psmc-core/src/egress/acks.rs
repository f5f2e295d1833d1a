//! Acknowledgements of inner TCP that say nothing which a later one does not say, too.
//!
//! A line that is ten times as fast one way as the other carries acknowledgements of a download on its slow side, and they take a
//! fifth of that: one for each other segment (RFC 9293 §3.8.6.3), each in a datagram of its own. Where they have to wait only the
//! last of them is of use (RFC 3449 §5.2.1, "ACK filtering").

use psmc_wire::ip::tcp::{self, is_after};

use super::{Queued, Role};
use crate::classify::{TcpHeader, tcp_header};

/// The one flag of a plain acknowledgement, and the others, with the reserved bits before them, in the two bytes that end with them
/// (RFC 9293 §3.1): ECN's ask for an answer or give one (RFC 3168 §6.1), as does its accurate successor.
const ACK: u16 = 0x10;
const FLAGS: u16 = 0x0FFF;

/// Kinds of options, by IANA's registry. Others may say what must not be lost, those of MPTCP for one.
mod kind {
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// A segment without data that acknowledges, and no more than that.
struct PlainAck<'a> {
    /// What tells its connection, its direction and how the network shall treat it from others.
    whose: [&'a [u8]; 3],
    acknowledges: u32,
    /// When it was sent, by the sender's clock (RFC 7323 §3.2).
    sent_at: Option<u32>,
    /// The segments behind gaps that it tells of (RFC 2018): pairs of numbers, each the first of a block and the one behind it.
    blocks: &'a [[u8; 8]],
}

/// Whether `newer` says all that `older` does, which waits right before it.
///
/// Acknowledgements that acknowledge the same are all told: whoever counts them finds a loss by three (RFC 5681 §3.2). But who is told
/// of segments behind a gap goes by those (RFC 6675), of which a later one tells as a rule, too. So are those that tell of what came twice
/// (RFC 2883), and all that have a flag or an option that is not known to be harmless.
pub(super) fn supersedes(newer: &Queued, older: &Queued) -> bool {
    let are_like = newer.bucket == older.bucket && newer.precedence == older.precedence;
    if !are_like || [newer, older].iter().any(|queued| !matches!(queued.role, Role::Packet(_))) {
        return false;
    }
    // Most segments have data, and end here: nothing of what waits is read for them.
    let Some(newer) = PlainAck::of(newer) else { return false };
    let Some(older) = PlainAck::of(older) else { return false };
    let advances = is_after(newer.acknowledges, older.acknowledges)
        || older.acknowledges == newer.acknowledges && !newer.blocks.is_empty();
    let is_later = match (older.sent_at, newer.sent_at) {
        (Some(older), Some(newer)) => !is_after(older, newer),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    newer.whose == older.whose
        && advances
        && is_later
        && !older.tells_of_twice()
        && newer.has_all_blocks_of(&older)
}

/// Whether it is a segment that only acknowledges.
pub(super) fn is_plain(queued: &Queued) -> bool {
    matches!(queued.role, Role::Packet(_)) && PlainAck::of(queued).is_some()
}

impl<'a> PlainAck<'a> {
    fn of(queued: &'a Queued) -> Option<Self> {
        if queued.part.is_some() {
            return None;
        }
        let packet = queued.packet.packet();
        let TcpHeader { at, ip_len } = tcp_header(packet)?;
        // Options of IP are not looked at.
        let (ip, segment) = packet.split_at_checked(at).filter(|(ip, _)| ip.len() == ip_len)?;
        let fixed = segment.first_chunk::<20>()?;
        let flags = u16::from_be_bytes([fixed[12], fixed[13]]) & FLAGS;
        let has_data = segment.len() != usize::from(fixed[12] >> 4) * 4;
        if flags != ACK || has_data {
            return None;
        }
        let (treated, addresses) =
            if ip[0] >> 4 == 4 { (&ip[1..2], &ip[12..]) } else { (&ip[..4], &ip[8..]) };
        let mut ack = Self {
            whose: [treated, addresses, &segment[..4]],
            acknowledges: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
            sent_at: None,
            blocks: &[],
        };
        for option in tcp::options(&segment[20..]) {
            match (option.kind, option.value.first_chunk::<4>()) {
                (kind::SACK, _) => ack.blocks = option.value.as_chunks().0,
                (kind::TIMESTAMPS, Some(&sent_at)) => ack.sent_at = Some(u32::from_be_bytes(sent_at)),
                _ => return None,
            }
        }
        Some(ack)
    }

    /// Whether the first block is of what has come before, which is acknowledged or in the second one (RFC 2883 §4).
    fn tells_of_twice(&self) -> bool {
        let Some((&first, others)) = self.blocks.split_first() else { return false };
        let [from, to] = block(first);
        !is_after(to, self.acknowledges) || others.first().is_some_and(|other| holds(*other, from, to))
    }

    fn has_all_blocks_of(&self, older: &Self) -> bool {
        older.blocks.iter().all(|&bytes| {
            let [from, to] = block(bytes);
            !is_after(to, self.acknowledges) || self.blocks.iter().any(|other| holds(*other, from, to))
        })
    }
}

fn block([a, b, c, d, e, f, g, h]: [u8; 8]) -> [u32; 2] {
    [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes)
}

/// Whether a block has all from a number to the one before another.
fn holds(bytes: [u8; 8], from: u32, to: u32) -> bool {
    let [first, behind] = block(bytes);
    !is_after(first, from) && !is_after(to, behind)
}

#[cfg(test)]
mod tests;
