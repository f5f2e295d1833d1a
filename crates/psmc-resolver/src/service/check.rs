//! One look for routes in DNS.

use std::sync::Arc;

use hickory_proto::rr::rdata::svcb::SVCB;
use hickory_proto::rr::{Name, RData, RecordType};

use super::beliefs::of_name;
use crate::lookup::Lookup;
use crate::question::Question;
use crate::reply::Reply;
use psmc_routes::{ALT, svcb_name};

/// ALT records of a service at most that are looked at: one for everyone and one for each group, but an attacker's
/// answer can have thousands.
const MAX_RECORDS: usize = 64;

/// What name servers say about a service's routes.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The contents of ALT records.
    pub(super) alt: Vec<Vec<u8>>,
    /// SVCB records, for a service that has no ALT.
    pub(super) svcb: Vec<SVCB>,
    /// How long that counts, in seconds.
    pub(super) ttl: u32,
}

/// Looks for both kinds of records at once; `None` if no name server answers.
pub(super) async fn look(lookup: Arc<Lookup>, service: Name) -> Option<Found> {
    let alt = Question::new(&service, ALT);
    let prefixed = svcb_name(&service).ok();
    let svcb = async {
        match &prefixed {
            Some(name) => lookup.ask_now(&Question::new(name, RecordType::SVCB)).await,
            // The name is too long to have any.
            None => None,
        }
    };
    let (alt, svcb) = tokio::join!(lookup.ask_now(&alt), svcb);
    let mut found = Found { ttl: ttl(alt.as_ref()?), ..Found::default() };
    let records = of_name(&alt.as_ref()?.answers, &service).filter_map(|record| {
        let RData::Unknown { code: ALT, rdata } = &record.data else { return None };
        Some(rdata.anything.clone())
    });
    found.alt = records.take(MAX_RECORDS).collect();
    if let (true, Some(svcb), Some(name)) = (found.alt.is_empty(), svcb, &prefixed) {
        let records = of_name(&svcb.answers, name).filter_map(|record| {
            let RData::SVCB(svcb) = &record.data else { return None };
            Some(svcb.clone())
        });
        found.svcb = records.take(MAX_RECORDS).collect();
    }
    Some(found)
}

fn ttl(reply: &Reply) -> u32 {
    reply.lifetime().map_or(0, |lifetime| u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX))
}
