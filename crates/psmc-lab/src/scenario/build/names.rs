//! Names stand for one thing each, and for one that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use psmc_toml::{Complaint, Name, nearest};
use toml::Spanned;

use crate::scenario::draft::{ActionDraft, Destination, Draft, SubjectDraft, TrafficDraft, TunnelDraft};

/// Everything in a file that has a name.
pub(super) struct Directory {
    pub(super) hosts: Names,
    pub(super) links: Names,
    pub(super) tunnels: Names,
    /// The sites of the tunnels as events call them, `vpn.van`; those of the first tunnel are 0 and 1.
    pub(super) sites: Names,
    pub(super) programs: Names,
    pub(super) traffic: Names,
    /// Whether every name stands for one thing.
    pub(super) is_sound: bool,
}

/// The names of one kind of thing, each with its index in the file.
pub(super) struct Names {
    /// What one of them is called.
    kind: &'static str,
    index: BTreeMap<String, usize>,
    /// In the order of the file.
    list: Vec<String>,
}

impl Directory {
    /// Collects the names of a file, and complains about those that stand for two things.
    pub(super) fn of(draft: &Draft, out: &mut Vec<Complaint>) -> Self {
        let before = out.len();
        let links = draft.links.iter().map(|link| own(link.name.as_ref()));
        let tunnels = draft.tunnels.iter().map(|tunnel| own(tunnel.name.as_ref()));
        let programs = draft.programs.iter().map(|program| own(program.name.as_ref()));
        let traffic = draft.traffic.iter().map(|traffic| own(traffic.name.as_ref()));
        let hosts = draft.hosts.iter().map(|host| own(host.name.as_ref()));
        unique("links or tunnels", links.clone().chain(tunnels.clone()), out);
        let captures = draft
            .links
            .iter()
            .map(|link| link.capture.as_ref().map(|path| spanned(path, &path.get_ref().display())));
        unique("captures", captures, out);
        unique("programs", programs.clone(), out);
        unique("streams of traffic", traffic.clone(), out);
        unique("hosts", hosts.clone(), out);
        let mut hosts = Names::new("host", hosts);
        for name in draft.links.iter().flat_map(|link| link.between.iter().flatten()) {
            hosts.add(name.get_ref().as_str());
        }
        Self {
            hosts,
            links: Names::new("link", links),
            tunnels: Names::new("tunnel", tunnels),
            sites: Names::new("site", draft.tunnels.iter().flat_map(sites)),
            programs: Names::new("program", programs),
            traffic: Names::new("stream of traffic", stream_names(&draft.traffic)),
            is_sound: out.len() == before,
        }
    }
}

fn sites(tunnel: &TunnelDraft) -> [Option<Spanned<String>>; 2] {
    [0, 1].map(|end| {
        let name = tunnel.name.as_ref()?;
        let host = &tunnel.between.as_ref()?[end];
        Some(spanned(name, &format!("{}.{}", name.get_ref(), host.get_ref())))
    })
}

/// The names of streams: their own, or else their kind, with a number where several would be called so.
fn stream_names(drafts: &[TrafficDraft]) -> impl Iterator<Item = Option<Spanned<String>>> {
    let mut taken: BTreeSet<String> =
        drafts.iter().filter_map(|draft| own(draft.name.as_ref())).map(Spanned::into_inner).collect();
    drafts.iter().map(move |draft| {
        own(draft.name.as_ref()).or_else(|| {
            let kind = draft.kind.as_ref()?.name();
            let numbered = (2..).map(|number| format!("{kind}-{number}"));
            let free = std::iter::once(kind.to_owned()).chain(numbered).find(|name| !taken.contains(name))?;
            taken.insert(free.clone());
            Some(Spanned::new(draft.place.clone(), free))
        })
    })
}

fn own(name: Option<&Spanned<Name>>) -> Option<Spanned<String>> {
    name.map(|name| spanned(name, name.get_ref()))
}

fn spanned(name: &Spanned<impl Sized>, text: &impl ToString) -> Spanned<String> {
    Spanned::new(name.span(), text.to_string())
}

/// Complains about names that several `things` have.
fn unique(things: &str, names: impl Iterator<Item = Option<Spanned<String>>>, out: &mut Vec<Complaint>) {
    let mut seen: BTreeMap<String, Range<usize>> = BTreeMap::new();
    for name in names.flatten() {
        match seen.get(name.get_ref()) {
            Some(first) => {
                let reason = format!("two {things} are called \"{}\"", name.get_ref());
                let complaint = Complaint::new(reason, "give one of them another name").at(name.span());
                out.push(complaint.because_of(first.clone(), "the other one"));
            }
            None => drop(seen.insert(name.get_ref().clone(), name.span())),
        }
    }
}

impl Names {
    fn new(kind: &'static str, names: impl Iterator<Item = Option<Spanned<String>>>) -> Self {
        let mut all = Self { kind, index: BTreeMap::new(), list: Vec::new() };
        // Things whose name is wrong or missing keep their place, and are found by nobody.
        for (index, name) in names.enumerate() {
            let name = name.map(Spanned::into_inner).unwrap_or_default();
            all.index.entry(name.clone()).or_insert(index);
            all.list.push(name);
        }
        all.index.remove("");
        all
    }

    /// Adds a name, unless it is there.
    fn add(&mut self, name: &str) {
        if !self.index.contains_key(name) {
            self.index.insert(name.to_owned(), self.list.len());
            self.list.push(name.to_owned());
        }
    }

    /// All names, in the order of their indices; empty ones for things without a name.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }

    /// The index of a name.
    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The index of what is referred to.
    pub(super) fn find(&self, name: &Spanned<String>) -> Option<usize> {
        self.get(name.get_ref())
    }

    /// What one of these things is called.
    pub(super) fn kind(&self) -> &'static str {
        self.kind
    }
}

/// A complaint that there is no `kind` of this name; `candidates` are the names that there are.
fn unknown<'a>(kind: &str, name: &Spanned<String>, candidates: impl Iterator<Item = &'a str>) -> Complaint {
    let candidates: Vec<&str> = candidates.filter(|name| !name.is_empty()).collect();
    let text = name.get_ref();
    let remedy = match (nearest(text, &candidates), candidates.as_slice()) {
        (Some(near), _) => format!("did you mean \"{near}\"?"),
        (None, []) => format!("there is none; add one that is called \"{text}\""),
        (None, all) => format!("put in one that is there: {}", listed(all.iter())),
    };
    Complaint::new(format!("there is no {kind} called \"{text}\""), remedy).at(name.span())
}

/// Values with commas between, of which a complaint shows the first few.
pub(super) fn listed<T: ToString>(values: impl ExactSizeIterator<Item = T>) -> String {
    const SHOWN: usize = 8;
    let more = values.len().saturating_sub(SHOWN);
    let shown: Vec<String> = values.take(SHOWN).map(|value| value.to_string()).collect();
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &tail
}

/// Complains about every name that nothing has. Afterwards a name that is not found needs no complaint.
pub(super) fn check_references(draft: &Draft, directory: &Directory, out: &mut Vec<Complaint>) {
    let mut checker = Checker { directory, out };
    let Directory { hosts, links, programs, traffic, .. } = directory;
    draft
        .hosts
        .iter()
        .filter_map(|host| host.nat.as_ref())
        .for_each(|nat| checker.one_of(links, &nat.outside));
    let routers = draft.routers.iter().filter_map(|router| router.host.as_ref());
    routers.for_each(|host| checker.one_of(hosts, host));
    for tunnel in &draft.tunnels {
        tunnel
            .between
            .iter()
            .flatten()
            .for_each(|host| checker.one_of(hosts, &spanned(host, host.get_ref())));
        tunnel.paths.iter().for_each(|path| checker.one_of(links, &path.link));
    }
    draft
        .programs
        .iter()
        .filter_map(|program| program.host.as_ref())
        .for_each(|host| checker.one_of(hosts, host));
    for stream in &draft.traffic {
        [&stream.from, &stream.to].into_iter().flatten().for_each(|host| checker.one_of(hosts, host));
        stream.destination.iter().for_each(|destination| checker.destination(destination));
    }
    draft.events.iter().filter_map(|event| event.action.as_ref()).for_each(|action| checker.action(action));
    for subject in draft.checks.iter().filter_map(|check| check.subject.as_ref()) {
        match subject {
            SubjectDraft::Traffic(name) => checker.one_of(traffic, name),
            SubjectDraft::Link(name, _) => checker.one_of(links, name),
            SubjectDraft::Program(name) => checker.one_of(programs, name),
        }
    }
}

struct Checker<'a> {
    directory: &'a Directory,
    out: &'a mut Vec<Complaint>,
}

impl Checker<'_> {
    fn one_of(&mut self, names: &Names, name: &Spanned<String>) {
        self.one_of_both(names.kind(), [names, names], name);
    }

    fn one_of_both(&mut self, kind: &str, names: [&Names; 2], name: &Spanned<String>) {
        if names.iter().all(|names| names.find(name).is_none()) {
            let all = if std::ptr::eq(names[0], names[1]) { &names[..1] } else { &names[..] };
            let candidates = all.iter().flat_map(|names| names.list()).map(String::as_str);
            self.out.push(unknown(kind, name, candidates));
        }
    }

    fn destination(&mut self, destination: &Destination) {
        match destination {
            Destination::Via(name) => {
                let names = [&self.directory.tunnels, &self.directory.links];
                self.one_of_both("tunnel or link", names, name);
            }
            Destination::Any | Destination::Address(_) => {}
        }
    }

    fn action(&mut self, action: &ActionDraft) {
        let Directory { hosts, links, programs, sites, .. } = self.directory;
        match action {
            ActionDraft::Cut(link)
            | ActionDraft::BlackHole(link, _)
            | ActionDraft::Restore(link)
            | ActionDraft::Change(link, ..) => self.one_of(links, link),
            ActionDraft::Kill(name) | ActionDraft::Restart(name) => {
                self.one_of_both("program or site", [programs, sites], name);
            }
            ActionDraft::Roam { host, link, .. } => {
                self.one_of(hosts, host);
                self.one_of(links, link);
            }
            ActionDraft::Flood(flood) => {
                self.one_of(hosts, &flood.from);
                self.one_of(hosts, &flood.to);
                self.destination(&flood.destination);
            }
        }
    }
}
