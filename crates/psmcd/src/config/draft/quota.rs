//! What a path may carry: `quota`.

use psmc_toml::{Complaint, Section};
use toml::Spanned;

use crate::config::value::{DAY, QUOTA_BYTES, THEN, check_day};
use crate::quota::{Every, Quota};

/// Reads `quota`.
pub(super) fn read(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Spanned<Quota>> {
    if !section.has("quota") {
        return None;
    }
    let quota = section.section("quota", "the quota of a path", &["bytes", "every", "day", "then"], out)?;
    let bytes = quota.required("bytes", QUOTA_BYTES, "what the path may carry", out);
    let every = quota.required("every", Every::KIND, "how long that has to last", out);
    let day = quota.optional_at("day", DAY, out);
    let then = quota.required("then", THEN, "what becomes of the path when that is used up", out);
    let every = every?;
    if let Some((day, error)) =
        day.as_ref().and_then(|day| Some((day, check_day(every, *day.get_ref()).err()?)))
    {
        out.push(Complaint::new(error.reason(), error.remedy()).at(day.span()));
        return None;
    }
    let day = day.map_or(1, Spanned::into_inner);
    Some(Spanned::new(quota.place(), Quota { bytes: bytes?, every, day, then: then? }))
}
