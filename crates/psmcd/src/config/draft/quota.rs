//! What a path may carry: `quota`.

use psmc_toml::{Complaint, Section};
use toml::Spanned;

use crate::config::value::{DAY, QUOTA_BYTES, THEN};
use crate::quota::{Every, Quota};

/// Days of a week.
const WEEK: i8 = 7;

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
    if let Some(day) = day.as_ref().filter(|day| !has_day(every, *day.get_ref())) {
        let (reason, remedy) = match every {
            Every::Day => ("a day begins at midnight", "remove `day`"),
            Every::Week | Every::Month => {
                ("a week has seven days", "choose 1, which is Monday, to 7, which is Sunday")
            }
        };
        out.push(Complaint::new(reason, remedy).at(day.span()));
        return None;
    }
    let day = day.map_or(1, Spanned::into_inner);
    Some(Spanned::new(quota.place(), Quota { bytes: bytes?, every, day, then: then? }))
}

/// Whether a period of that kind can begin on that day.
fn has_day(every: Every, day: i8) -> bool {
    match every {
        Every::Day => false,
        Every::Week => day <= WEEK,
        Every::Month => true,
    }
}
