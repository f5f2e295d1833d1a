//! What name servers read: messages, records, zones.

use hickory_proto::rr::{Name, RecordData, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use psmc_dns::zone::{Delta, Zone, read_zone_text};
use psmc_routes::wire::{read_message, read_record};
use psmc_routes::{AltRecord, svcb_records, svcb_routes};

/// The data of an ALT record, and what SVCB records make of the same routes.
pub fn routes(bytes: &[u8]) {
    let service = Name::from_ascii("www.example.com.").expect("it is a name");
    let Ok(record) = AltRecord::decode(&service, bytes) else { return };
    assert_eq!(record.encode(), bytes);
    let AltRecord::Open(routes) = record else { return };
    let again = svcb_routes(&service, svcb_records(&routes).iter());
    assert_eq!(again.as_deref(), Ok(&[routes][..]));
}

/// A DNS message from anywhere: what is read of it reads back the same, whatever is in its records.
pub fn message(bytes: &[u8]) {
    let Ok(incoming) = read_message(bytes) else { return };
    let message = incoming.message;
    for record in message.all_sections() {
        // An update's record that stands for a set has no data, which is no data of no length.
        if record.data.is_update() {
            continue;
        }
        let stored = record.to_bytes().expect("a record that was read can be written");
        assert_eq!(read_record(&stored).as_ref().map(|record| &record.data), Ok(&record.data));
    }
    // Names that were compressed may make it longer than a message can be.
    let Ok(again) = message.to_vec() else { return };
    let again = read_message(&again).expect("what we write is well-formed").message;
    assert!(again.all_sections().eq(message.all_sections()));
}

/// The records of a message as a zone: what it answers, and that it is the same after a transfer.
pub fn transfer(bytes: &[u8]) {
    let Ok(incoming) = read_message(bytes) else { return };
    let records = incoming.message.answers;
    let Some(origin) = records.first().map(|record| record.name.clone()) else { return };
    let Ok(zone) = Zone::new(&origin, records) else { return };
    let owners: Vec<(Name, RecordType)> =
        zone.records().map(|record| (record.name.clone(), record.record_type())).collect();
    for (owner, kind) in owners {
        for dnssec in [false, true] {
            let _ = zone.answer(&owner, kind, dnssec);
            let _ = zone.answer(&owner, RecordType::ANY, dnssec);
            let below = owner.prepend_label("x").and_then(|below| below.prepend_label("*"));
            let _ = below.map(|below| zone.answer(&below, kind, dnssec));
        }
    }
    let again = Zone::new(&origin, zone.records().cloned()).expect("a zone's records are a zone");
    assert_eq!(zone.delta(&again), Delta::default());
}

/// A zone file. One that generates records is passed over: a line of it may stand for millions.
pub fn zone_file(bytes: &[u8]) {
    if bytes.windows(4).any(|window| window.eq_ignore_ascii_case(b"$GEN")) {
        return;
    }
    let origin = Name::from_ascii("example.com.").expect("it is a name");
    let Ok(records) = read_zone_text(bytes, &origin) else { return };
    for record in records {
        let stored = record.to_bytes().expect("a record that was read can be written");
        assert_eq!(read_record(&stored).as_ref().map(|record| &record.data), Ok(&record.data));
    }
}
