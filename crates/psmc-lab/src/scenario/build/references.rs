//! Whatever is referred to is there.

use psmc_toml::Complaint;
use toml::Spanned;

use super::names::{Directory, Names, unknown};
use crate::scenario::draft::{ActionDraft, Destination, Draft, SubjectDraft};

/// Complains about every name that nothing has. Afterwards a name that is not found needs no complaint.
pub(super) fn check(draft: &Draft, directory: &Directory, out: &mut Vec<Complaint>) {
    let mut checker = Checker { directory, out };
    let Directory { hosts, links, programs, traffic, .. } = directory;
    draft
        .hosts
        .iter()
        .filter_map(|host| host.nat.as_ref())
        .for_each(|nat| checker.one_of(links, &nat.outside));
    for tunnel in &draft.tunnels {
        tunnel.between.iter().flatten().for_each(|host| checker.one_of(hosts, &reference(host)));
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

fn reference(name: &Spanned<psmc_toml::Name>) -> Spanned<String> {
    Spanned::new(name.span(), name.get_ref().to_string())
}
