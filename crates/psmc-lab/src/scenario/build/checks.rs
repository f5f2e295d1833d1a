//! Checks: each looks at something that has what it asks for.

use psmc_toml::Complaint;
use toml::Spanned;

use super::limits::End;
use super::names::Directory;
use crate::scenario::draft::{CheckDraft, SubjectDraft, TrafficDraft};
use crate::scenario::model::{Check, LinkId, Metric, ProgramId, Subject, TrafficId, TrafficKind};

/// One check for each bound of the section.
pub(super) fn checks(
    draft: &CheckDraft,
    traffic: &[TrafficDraft],
    directory: &Directory,
    end: &End,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Check>> {
    let window = draft.window.as_ref().map(|[from, to]| end.span(Some(from), Some(to), out));
    let subject = subject(draft.subject.as_ref()?, directory)?;
    let measured = measured(subject, traffic);
    for (metric, _) in &draft.bounds {
        if let Some(measured) = measured.filter(|measured| !measured.contains(metric.get_ref())) {
            let names: Vec<&str> = measured.iter().map(|metric| metric.as_str()).collect();
            let reason = format!("{} has no `{}`", kind(subject, traffic), metric.get_ref().as_str());
            out.push(Complaint::new(reason, format!("it has {}", names.join(", "))).at(metric.span()));
        }
        whole(metric, draft, out);
    }
    let check = |(metric, bound): &(Spanned<Metric>, _)| Check {
        subject,
        metric: *metric.get_ref(),
        window,
        bound: *bound,
    };
    Some(draft.bounds.iter().map(check).collect())
}

fn subject(draft: &SubjectDraft, directory: &Directory) -> Option<Subject> {
    Some(match draft {
        SubjectDraft::Traffic(name) => Subject::Traffic(TrafficId(directory.traffic.find(name)?)),
        SubjectDraft::Link(name, direction) => {
            Subject::Link(LinkId(directory.links.find(name)?), direction.index())
        }
        SubjectDraft::Program(name) => Subject::Program(ProgramId(directory.programs.find(name)?)),
    })
}

/// What is measured of something; `None` if that depends on what was complained about.
fn measured(subject: Subject, traffic: &[TrafficDraft]) -> Option<&'static [Metric]> {
    match subject {
        Subject::Link(..) => Some(&[Metric::Goodput, Metric::Loss]),
        Subject::Program(_) => Some(&[Metric::ExitStatus]),
        Subject::Traffic(id) => Some(match traffic.get(id.0)?.kind.as_ref()? {
            TrafficKind::Tcp { .. } | TrafficKind::Quic { .. } => {
                &[Metric::Goodput, Metric::Bytes, Metric::LongestGap]
            }
            TrafficKind::Udp { .. } => &[Metric::Goodput, Metric::Bytes, Metric::LongestGap, Metric::Loss],
            TrafficKind::Requests { .. } => &[
                Metric::Goodput,
                Metric::Bytes,
                Metric::LongestGap,
                Metric::Loss,
                Metric::RttMedian,
                Metric::Rtt99,
            ],
            TrafficKind::Ping { .. } => &[Metric::Loss, Metric::LongestGap, Metric::RttMedian, Metric::Rtt99],
        }),
    }
}

fn kind(subject: Subject, traffic: &[TrafficDraft]) -> &'static str {
    match subject {
        Subject::Link(..) => "a link",
        Subject::Program(_) => "a program",
        Subject::Traffic(id) => match traffic.get(id.0).and_then(|traffic| traffic.kind.as_ref()) {
            None => "this traffic",
            Some(TrafficKind::Tcp { .. }) => "traffic of the kind tcp",
            Some(TrafficKind::Quic { .. }) => "traffic of the kind quic",
            Some(TrafficKind::Udp { .. }) => "traffic of the kind udp",
            Some(TrafficKind::Requests { .. }) => "traffic of the kind requests",
            Some(TrafficKind::Ping { .. }) => "traffic of the kind ping",
        },
    }
}

/// A program has one exit status, whenever that comes.
fn whole(metric: &Spanned<Metric>, draft: &CheckDraft, out: &mut Vec<Complaint>) {
    if let (Metric::ExitStatus, Some([from, _])) = (metric.get_ref(), &draft.window) {
        let complaint = Complaint::new("an exit status has no time", "remove `between`");
        out.push(complaint.at(from.span()));
    }
}
