//! Zone transfers: AXFR (RFC 5936) and IXFR (RFC 1995).

use std::collections::VecDeque;

use hickory_proto::rr::{Record, RecordType};
use hickory_proto::serialize::binary::BinEncodable;

use crate::zone::{Delta, Zone};

/// Changes that are remembered of a zone: a secondary that has missed more gets the whole zone.
const MAX_HISTORY: usize = 256;

/// Bytes of records in a message, about: larger ones gain nothing, and compression reaches 16 KiB far.
const MESSAGE_LEN: usize = 16_000;

/// The last changes of a zone, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<(u32, Delta)>);

impl History {
    /// Remembers what has changed the zone with the serial number `from`.
    pub(super) fn push(&mut self, from: u32, delta: Delta) {
        if self.0.len() == MAX_HISTORY {
            self.0.pop_front();
        }
        self.0.push_back((from, delta));
    }

    /// Forgets everything: what follows has not come from what was.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The records of an IXFR for a secondary that has the serial number `from`; `None` where it takes a whole transfer.
    pub(super) fn since(&self, from: u32, zone: &Zone) -> Option<Vec<Record>> {
        let soa = zone.soa_record().clone();
        if from == zone.serial() {
            return Some(vec![soa]);
        }
        let first = self.0.iter().position(|(serial, _)| *serial == from)?;
        let mut records = vec![soa.clone()];
        for (_, delta) in self.0.iter().skip(first) {
            records.extend(soa_first(&delta.removed));
            records.extend(soa_first(&delta.added));
        }
        records.push(soa);
        // More than the zone itself is no saving (RFC 1995 §2).
        (records.len() < zone.len()).then_some(records)
    }
}

/// The records of an AXFR.
pub(super) fn whole(zone: &Zone) -> Vec<Record> {
    zone.records().chain([zone.soa_record()]).cloned().collect()
}

/// The records in portions that fit into messages.
pub(super) fn portions(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut portions = vec![Vec::new()];
    let mut filled = 0;
    for record in records {
        let length = record.to_bytes().map_or(0, |bytes| bytes.len());
        if filled + length > MESSAGE_LEN && filled > 0 {
            portions.push(Vec::new());
            filled = 0;
        }
        filled += length;
        portions.last_mut().expect("there is one from the start").push(record);
    }
    portions
}

fn soa_first(records: &[Record]) -> impl Iterator<Item = Record> {
    let of = |wanted: bool| {
        records.iter().filter(move |record| (record.record_type() == RecordType::SOA) == wanted).cloned()
    };
    of(true).chain(of(false))
}
