//! The keys of a buffer stand where there is such a buffer.

use std::ops::Range;

use psmc_toml::Complaint;
use toml::Spanned;

use crate::config::draft::{Draft, TreatmentDraft};
use crate::config::value::Reorder;

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    let site = draft.site.as_ref().map(|site| site.treatment.clone()).unwrap_or_default();
    useful(&site, &site, out);
    comparable(&site, &site, out);
    limits(&site, out);
    for peer in &draft.peers {
        let whole = peer.treatment.or(&site);
        useful(&peer.treatment, &whole, out);
        comparable(&peer.treatment, &whole, out);
        if peer.treatment.reorder_least.is_some() || peer.treatment.reorder_most.is_some() {
            limits(&whole, out);
        }
    }
}

/// Complains about keys of `own` that mean nothing to the policy of `whole`.
fn useful(own: &TreatmentDraft, whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let policy = whole.reorder.unwrap_or_default();
    let keys = [
        ("reorder_timeout", place(&own.reorder_timeout), Reorder::Fixed),
        ("reorder_packets", place(&own.reorder_packets), Reorder::Fixed),
        ("reorder_factor", place(&own.reorder_factor), Reorder::Adaptive),
        ("reorder_least", place(&own.reorder_least), Reorder::Adaptive),
        ("reorder_most", place(&own.reorder_most), Reorder::Adaptive),
    ];
    for (key, place, owner) in keys {
        let Some(place) = place.filter(|_| policy != owner) else {
            continue;
        };
        let reason = format!("`{key}` means nothing with reorder = \"{}\"", policy.as_str());
        let remedy = format!("remove it, or set reorder = \"{}\" in the same section", owner.as_str());
        out.push(Complaint::new(reason, remedy).at(place));
    }
}

/// Complains if `own` asks for a rule that the scheduler of `whole` cannot heed.
fn comparable(own: &TreatmentDraft, whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let scheduler = whole.scheduler.unwrap_or_default();
    let Some(rule) = own.bad_path_rule.as_ref().filter(|switch| *switch.get_ref()) else {
        return;
    };
    if !scheduler.heeds_bad_path_rule() {
        let reason =
            format!("with scheduler = \"{}\" bad paths cannot be told from good ones", scheduler.name());
        let remedy = "remove it, or choose the scheduler \"wrr-adaptive\" or \"earliest\"";
        out.push(Complaint::new(reason, remedy).at(rule.span()));
    }
}

fn limits(whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let (Some(least), Some(most)) = (&whole.reorder_least, &whole.reorder_most) else {
        return;
    };
    if least.get_ref() > most.get_ref() {
        let reason = "the least size of the buffer is more than the most";
        let complaint = Complaint::new(reason, "exchange the two, or remove one");
        out.push(complaint.at(least.span()).because_of(most.span(), "the most"));
    }
}

fn place<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
    value.as_ref().map(Spanned::span)
}
