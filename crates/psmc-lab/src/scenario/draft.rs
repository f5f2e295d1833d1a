//! What the file says, value by value, before the values are compared with each other.
//!
//! A draft holds what could be read: `None` stands for what is absent and for what was complained about.

mod check;
mod event;
mod network;
mod settings;
mod traffic;
mod tunnel;

use std::ops::Range;
use std::time::Duration;

use psmc_toml::{Complaint, Kind, Section, Source, kind_of, read};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{SEED, TIME, TITLE};

pub(super) use check::{CheckDraft, SubjectDraft};
pub(super) use event::{ActionDraft, EventDraft, FloodDraft};
pub(super) use network::{HostDraft, LinkDraft, NatDraft, ProgramDraft, RouterDraft};
pub(super) use settings::{DisciplineDraft, LinkSettings, RedDraft};
pub(super) use traffic::{Destination, TrafficDraft};
pub(super) use tunnel::{PathDraft, SettingDraft, TunnelDraft};

const SECTIONS: &[&str] =
    &["scenario", "host", "link", "router", "tunnel", "program", "traffic", "event", "check"];

/// A whole file.
pub(super) struct Draft {
    pub(super) header: Header,
    pub(super) hosts: Vec<HostDraft>,
    pub(super) links: Vec<LinkDraft>,
    pub(super) routers: Vec<RouterDraft>,
    pub(super) tunnels: Vec<TunnelDraft>,
    pub(super) programs: Vec<ProgramDraft>,
    pub(super) traffic: Vec<TrafficDraft>,
    pub(super) events: Vec<EventDraft>,
    pub(super) checks: Vec<CheckDraft>,
}

/// `[scenario]`
pub(super) struct Header {
    pub(super) name: Option<String>,
    pub(super) duration: Duration,
    /// Where the duration stands, if the file gives one.
    pub(super) duration_place: Option<Range<usize>>,
    pub(super) seed: u64,
    pub(super) sample: Duration,
}

impl Draft {
    /// Reads a file, and complains about every value that is wrong by itself.
    pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Self {
        let file = Section::open_with_hints("the top of a scenario", 0..0, root, SECTIONS, hint, out);
        if !file.has("link") {
            out.push(no_link());
        }
        let routers = file.sections("router", "[[router]]", RouterDraft::KEYS, out);
        let hosts = file.sections("host", "[[host]]", HostDraft::KEYS, out);
        let tunnels = file.sections("tunnel", "[[tunnel]]", TunnelDraft::KEYS, out);
        let programs = file.sections("program", "[[program]]", ProgramDraft::KEYS, out);
        let checks = file.sections("check", "[[check]]", CheckDraft::KEYS, out);
        Self {
            header: Header::read(&file, out),
            hosts: hosts.iter().map(|section| HostDraft::read(section, out)).collect(),
            links: each(&file, "link", "[[link]]", out, |place, table, out| {
                let section =
                    Section::open_with_hints("[[link]]", place, table, LinkDraft::KEYS, network::hint, out);
                LinkDraft::read(&section, source, out)
            }),
            routers: routers.iter().map(|section| RouterDraft::read(section, source, out)).collect(),
            tunnels: tunnels.iter().map(|section| TunnelDraft::read(section, out)).collect(),
            programs: programs.iter().map(|section| ProgramDraft::read(section, out)).collect(),
            traffic: each(&file, "traffic", "[[traffic]]", out, |place, table, out| {
                let (title, keys) = traffic::form(table);
                TrafficDraft::read(&Section::open(title, place, table, keys, out), out)
            }),
            events: each(&file, "event", "[[event]]", out, |place, table, out| {
                let (title, keys) = event::form(table);
                let section = Section::open_with_hints(title, place, table, keys, event::hint, out);
                EventDraft::read(&section, source, out)
            }),
            checks: checks.iter().map(|section| CheckDraft::read(section, out)).collect(),
        }
    }
}

/// The drafts of all sections of a kind.
fn each<T>(
    file: &Section<'_>,
    key: &str,
    header: &str,
    out: &mut Vec<Complaint>,
    read: impl Fn(Range<usize>, &DeTable<'_>, &mut Vec<Complaint>) -> T,
) -> Vec<T> {
    let tables = file.tables(key, header, out);
    tables.into_iter().map(|(place, table)| read(place, table, out)).collect()
}

/// Where a key belongs that stands above all sections.
fn hint(key: &str) -> Option<String> {
    match key {
        "path" => Some("a path belongs to a tunnel: write [[tunnel.path]] below its [[tunnel]]".to_owned()),
        "forward" | "back" => {
            Some(format!("a direction belongs to a link: write [link.{key}] below its [[link]]"))
        }
        _ if Header::KEYS.contains(&key) => Some(format!("put `{key}` below the line [scenario]")),
        _ => None,
    }
}

fn no_link() -> Complaint {
    Complaint::new(
        "the scenario has no [[link]], and a network needs one",
        r#"add [[link]] with name = "dsl", between = ["van", "hq"], rate = "50mbit" and delay = "10ms""#,
    )
}

impl Header {
    const KEYS: &[&str] = &["name", "duration", "seed", "sample"];

    fn read(file: &Section<'_>, out: &mut Vec<Complaint>) -> Self {
        let mut header = Self {
            name: None,
            duration: Self::DURATION,
            duration_place: None,
            seed: Self::SEED,
            sample: Self::SAMPLE,
        };
        let is_list = file.value("scenario").is_some_and(|value| value.get_ref().is_array());
        let section = if is_list {
            file.only_section("scenario", "[scenario]", Self::KEYS, "a file is one scenario", out)
        } else {
            file.section("scenario", "[scenario]", Self::KEYS, out)
        };
        if let Some(section) = section {
            header.fill(&section, out);
        }
        header
    }

    fn fill(&mut self, section: &Section<'_>, out: &mut Vec<Complaint>) {
        self.name = section.optional("name", TITLE, out);
        self.seed = section.optional("seed", SEED, out).unwrap_or(Self::SEED);
        if let Some(duration) = section.optional_at("duration", TIME, out) {
            self.duration = at_least(Self::LEAST_DURATION, "a scenario", &duration, out);
            self.duration_place = Some(duration.span());
        }
        if let Some(sample) = section.optional_at("sample", TIME, out) {
            self.sample = at_least(Self::LEAST_SAMPLE, "an interval", &sample, out);
        }
        if self.duration > self.sample * Self::MAX_SAMPLES {
            let reason = format!("every series would have more than {} values", Self::MAX_SAMPLES);
            let complaint = Complaint::new(reason, "choose a longer `sample`, or a shorter `duration`");
            out.push(complaint.at(section.place()));
        }
    }

    const DURATION: Duration = Duration::from_secs(10);
    const SEED: u64 = 1;
    const SAMPLE: Duration = Duration::from_millis(100);

    /// Tunnels need a handshake, and TCP some round trips, before anything can be seen.
    const LEAST_DURATION: Duration = Duration::from_millis(100);

    /// About as exact as a machine with other work knows the time at which something arrives.
    const LEAST_SAMPLE: Duration = Duration::from_millis(1);

    /// More than a plot can show, and as many as a day has tenths of seconds.
    const MAX_SAMPLES: u32 = 1_000_000;
}

/// The time, or a complaint that it is too short.
fn at_least(least: Duration, what: &str, time: &Spanned<Duration>, out: &mut Vec<Complaint>) -> Duration {
    let given = *time.get_ref();
    if given < least {
        let reason = format!("{what} of {given:?} is too short");
        out.push(Complaint::new(reason, format!("choose {least:?} or more")).at(time.span()));
    }
    given.max(least)
}

/// A list of exactly two values, the first of which is the first host's.
fn pair<T>(
    section: &Section<'_>,
    key: &str,
    kind: Kind<T>,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[Spanned<T>; 2]> {
    let [first, second] = two(section, key, example, out)?;
    let (first, second) = (read(key, first, kind, out), read(key, second, kind, out));
    Some([first?, second?])
}

/// The same, where each of the two is a value or a list of values. `None` also where one of them is wrong.
fn pair_of_lists<T>(
    section: &Section<'_>,
    key: &str,
    kind: Kind<T>,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[Vec<Spanned<T>>; 2]> {
    let before = out.len();
    let lists = two(section, key, example, out)?.map(|value| match value.get_ref().as_array() {
        Some(elements) => elements.iter().filter_map(|element| read(key, element, kind, out)).collect(),
        None => read(key, value, kind, out).into_iter().collect(),
    });
    (out.len() == before).then_some(lists)
}

fn two<'a>(
    section: &Section<'a>,
    key: &str,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Option<[&'a Spanned<DeValue<'a>>; 2]> {
    let value = section.value(key)?;
    let elements = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
    let reason = match elements.as_deref() {
        Some([first, second]) => return Some([*first, *second]),
        Some(elements) => format!("`{key}` has {} values, and takes two", elements.len()),
        None => format!("`{key}` takes a list of two values, not {}", kind_of(value.get_ref())),
    };
    out.push(Complaint::new(reason, format!("write it like {key} = {example}")).at(value.span()));
    None
}

/// The tables in a list, with their places: `key = [{ … }, { … }]`.
fn tables_in_list<'a>(
    section: &Section<'a>,
    key: &str,
    example: &str,
    out: &mut Vec<Complaint>,
) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let Some(elements) = value.get_ref().as_array() else {
        out.push(in_braces(
            format!("`{key}` takes a list, not {}", kind_of(value.get_ref())),
            key,
            example,
            value,
        ));
        return Vec::new();
    };
    let tables = elements.iter().filter_map(|element| {
        let table = element.get_ref().as_table();
        if table.is_none() {
            let reason = format!("each of `{key}` is a table in braces, not {}", kind_of(element.get_ref()));
            out.push(in_braces(reason, key, example, element));
        }
        Some((element.span(), table?))
    });
    tables.collect()
}

fn in_braces(reason: String, key: &str, example: &str, value: &Spanned<DeValue<'_>>) -> Complaint {
    Complaint::new(reason, format!("write it like {key} = {example}")).at(value.span())
}
