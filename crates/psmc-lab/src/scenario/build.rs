//! From drafts to the scenario: names become indices, and what the file leaves out is filled in.
//!
//! Here are also the checks of a scenario, each of which looks at something that has what it asks for; and limits: of time,
//! for everything happens between the beginning and the end, and against nonsense, far above what anybody would write by hand.

mod addresses;
mod directions;
mod events;
mod names;
mod network;
mod reach;
mod routers;
mod routes;
mod traffic;
mod tunnels;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use psmc_toml::{Complaint, Source};
use toml::Spanned;

use self::addresses::Addresses;
use self::events::Timeline;
use self::names::Directory;
use self::network::Network;
use self::reach::{Demands, Map};
use super::draft::{CheckDraft, Draft, Header, SubjectDraft, TrafficDraft};
use super::model::{
    Check, LinkId, Metric, ProgramId, Scenario, Sites, Subject, Traffic, TrafficId, TrafficKind, Tunnel,
    TunnelId,
};

/// The scenario, unless a draft lacks what was complained about.
pub(super) fn scenario(draft: &Draft, source: &Source, out: &mut Vec<Complaint>) -> Option<Scenario> {
    check_limits(draft, out)?;
    let directory = Directory::of(draft, out);
    names::check_references(draft, &directory, out);
    let end = End::of(&draft.header);
    let addresses = Addresses::of(draft, out);
    let network = Network::of(draft, &directory, addresses.as_ref(), out);
    let sites = sites(draft, &directory, addresses.as_ref(), out);
    let mut world = network
        .zip(sites)
        .filter(|_| directory.is_sound)
        .and_then(|(network, sites)| world(draft, &directory, network, sites, out));
    let routers = routers::of(draft, &directory, world.as_ref().map(|(network, _)| network), out);
    let map = world.as_ref().map(|(network, tunnels)| Map { network, tunnels });

    let programs: Vec<_> =
        draft.programs.iter().map(|program| traffic::program(program, &directory, &end, out)).collect();
    let streams = streams(draft, &directory, map.as_ref(), &end, out);
    let events = Timeline::new(&directory, map.as_ref(), &end).events(&draft.events, out);
    let checks = checks(draft, &directory, &end, out);
    let (network, tunnels) = world.take()?;
    Some(Scenario {
        name: draft.header.name.clone().unwrap_or_else(|| name_of(source)),
        duration: draft.header.duration,
        seed: draft.header.seed,
        sample_interval: draft.header.sample,
        hosts: network.hosts,
        links: network.links,
        routers: routers?,
        tunnels,
        programs: programs.into_iter().collect::<Option<_>>()?,
        traffic: streams?,
        events: events?,
        checks: checks?,
    })
}

/// A scenario without a name is called like its file.
fn name_of(source: &Source) -> String {
    Path::new(source.path())
        .file_stem()
        .map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The sites of all tunnels.
fn sites(
    draft: &Draft,
    directory: &Directory,
    addresses: Option<&Addresses>,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Sites>> {
    let tunnels = draft.tunnels.iter().enumerate();
    let sites: Vec<_> = tunnels
        .map(|(index, tunnel)| {
            tunnels::sites(tunnel, directory, addresses.map(|all| &all.tunnels[index]), out)
        })
        .collect();
    sites.into_iter().collect()
}

/// The network with its routes, and the tunnels over it. `None` if the routes are too many.
fn world(
    draft: &Draft,
    directory: &Directory,
    mut network: Network,
    sites: Vec<Sites>,
    out: &mut Vec<Complaint>,
) -> Option<(Network, Vec<Tunnel>)> {
    network.route(draft, &Demands::of(draft, &sites, directory), out)?;
    let mut tunnels = Vec::new();
    for (index, (draft, sites)) in draft.tunnels.iter().zip(sites).enumerate() {
        let before = out.len();
        let tunnel = tunnels::tunnel(draft, sites, directory, &network, out);
        if out.len() == before {
            tunnels::check_settings(draft, TunnelId(index), &tunnel, &network.hosts, &network.links, out);
        }
        tunnels.push(tunnel);
    }
    Some((network, tunnels))
}

fn streams(
    draft: &Draft,
    directory: &Directory,
    map: Option<&Map<'_>>,
    end: &End,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Traffic>> {
    let streams: Vec<_> = draft
        .traffic
        .iter()
        .enumerate()
        .map(|(index, stream)| {
            traffic::traffic(stream, directory.traffic.list()[index].clone(), directory, map, end, out)
        })
        .collect();
    streams.into_iter().collect()
}

fn checks(draft: &Draft, directory: &Directory, end: &End, out: &mut Vec<Complaint>) -> Option<Vec<Check>> {
    let checks: Vec<_> =
        draft.checks.iter().map(|check| checks_of(check, &draft.traffic, directory, end, out)).collect();
    checks.into_iter().collect::<Option<Vec<_>>>().map(|checks| checks.into_iter().flatten().collect())
}

/// One check for each bound of the section.
fn checks_of(
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
            TrafficKind::Udp { .. } => {
                &[Metric::Goodput, Metric::Bytes, Metric::LongestGap, Metric::Loss, Metric::Delay99]
            }
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

/// Four times the thousand sites that the simulator is made for.
const MAX_LINKS: usize = 4096;

/// As many as links, so that each can have one; and far fewer than there are ports.
const MAX_TUNNELS: usize = 4096;

/// More processes than this are a matter for several machines.
const MAX_PROGRAMS: usize = 1000;

/// One for each site of a large simulation, and some.
const MAX_STREAMS: usize = 10_000;

/// One every few milliseconds of an ordinary scenario.
const MAX_EVENTS: usize = 10_000;

/// As many as there can be streams.
const MAX_CHECKS: usize = 10_000;

/// Twice what a thousand sites with two uplinks need. A real run gives the kernel each of them.
const MAX_ROUTES: usize = 2_000_000;

/// `None` if there is too much of anything: the rest would only take time.
fn check_limits(draft: &Draft, out: &mut Vec<Complaint>) -> Option<()> {
    let before = out.len();
    at_most(MAX_LINKS, "links", &draft.links, |link| link.place.clone(), out);
    at_most(MAX_LINKS, "hosts", &draft.hosts, |host| host.place.clone(), out);
    at_most(MAX_LINKS, "routers", &draft.routers, |router| router.place.clone(), out);
    at_most(MAX_TUNNELS, "tunnels", &draft.tunnels, |tunnel| tunnel.place.clone(), out);
    at_most(MAX_PROGRAMS, "programs", &draft.programs, |program| program.place.clone(), out);
    at_most(MAX_STREAMS, "streams of traffic", &draft.traffic, |stream| stream.place.clone(), out);
    at_most(MAX_EVENTS, "events", &draft.events, |event| event.place.clone(), out);
    at_most(MAX_CHECKS, "checks", &draft.checks, |check| check.place.clone(), out);
    (out.len() == before).then_some(())
}

/// `None` if the hosts need more routes than this.
fn check_routes(count: usize, out: &mut Vec<Complaint>) -> Option<()> {
    if count > MAX_ROUTES {
        out.push(Complaint::new(
            format!("the hosts would need {count} routes, and {MAX_ROUTES} is the most"),
            "join fewer hosts by several links: one with a single link needs one route",
        ));
        return None;
    }
    Some(())
}

fn at_most<T>(
    most: usize,
    things: &str,
    all: &[T],
    place: impl Fn(&T) -> Range<usize>,
    out: &mut Vec<Complaint>,
) {
    if let Some(first) = all.get(most) {
        let reason = format!("the scenario has {} {things}; the limit is {most}", all.len());
        out.push(Complaint::new(reason, "remove those from here on").at(place(first)));
    }
}

/// When the scenario ends, and where the file says so.
struct End {
    at: Duration,
    place: Option<Range<usize>>,
}

impl End {
    fn of(header: &Header) -> Self {
        Self { at: header.duration, place: header.duration_place.clone() }
    }

    /// The time, or a complaint that the scenario is over by then.
    fn within(&self, time: &Spanned<Duration>, out: &mut Vec<Complaint>) -> Duration {
        let given = *time.get_ref();
        if given > self.at {
            let reason = format!("the scenario ends after {:?}, before that", self.at);
            let remedy = "choose an earlier time, or a longer `duration` in [scenario]";
            let complaint = Complaint::new(reason, remedy).at(time.span());
            out.push(match &self.place {
                Some(place) => complaint.because_of(place.clone(), "its duration"),
                None => complaint,
            });
        }
        given
    }

    /// From when to when something lasts: all of the time, unless the file says otherwise.
    fn span(
        &self,
        start: Option<&Spanned<Duration>>,
        stop: Option<&Spanned<Duration>>,
        out: &mut Vec<Complaint>,
    ) -> [Duration; 2] {
        let from = start.map_or(Duration::ZERO, |start| self.within(start, out));
        let to = stop.map_or(self.at, |stop| self.within(stop, out));
        if let Some(place) = stop.or(start).filter(|_| from >= to && from < self.at.max(to)) {
            let complaint =
                Complaint::new("it ends before it has begun", "choose a later end, or an earlier beginning");
            out.push(complaint.at(place.span()));
        } else if let Some(start) = start.filter(|_| stop.is_none() && from == self.at) {
            let complaint = Complaint::new("it begins when the scenario ends", "choose an earlier time");
            out.push(complaint.at(start.span()));
        }
        [from, to]
    }
}
