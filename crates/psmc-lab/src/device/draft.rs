//! What the file of a profile says.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use psmc_sim::link::Discipline;
use psmc_sim::profiler::{Estimate, ProfileConfigError};
use psmc_sim::router::{CpuConfig, MAX_BYTES, MAX_PORTS, MAX_TIME};
use psmc_toml::{Complaint, Kind, SWITCH, Section, Source, ValueError, choice, within};
use toml::de::DeTable;

use super::{Confidence, DevicePort, DeviceProfile, DeviceSize, Figure, Provenance, VERSION, cpu};
use crate::scenario::value::{LINK_RATE, TIME, TITLE};

const TOP: &[&str] = &["version", "name", "provenance", "port", "size", "cpu"];
const PROVENANCE: &[&str] = &["confidence", "source", "made", "machine", "machine_95", "remarks"];
const PORT: &[&str] = &["count", "rate", "framing", "queue", "discipline", "extra"];
const SIZE: &[&str] = &["bytes", "delay", "served", "queued"];
const CPU: &[&str] = &["time", "control", "ring", "shared"];
const FIGURE: &[&str] = &["value", "low", "high", "confidence"];

/// Reads a file. `None` only where something was complained about.
pub(super) fn read(root: &DeTable<'_>, _: &Source, out: &mut Vec<Complaint>) -> Option<DeviceProfile> {
    let before = out.len();
    let file = Section::open_with_hints("the top of a profile", 0..0, root, TOP, hint, out);
    version(&file, out);
    let name = file.required("name", TITLE, "what the device is", out);
    let provenance = provenance(&file, out);
    let inherited = provenance.as_ref().map_or(Confidence::Estimated, |provenance| provenance.confidence);
    let ports = file.sections("port", "[[port]]", PORT, out);
    if ports.is_empty() && !file.has("port") {
        out.push(file.missing("port", r#"add [[port]] with count = 4 and rate = "100mbit""#));
    }
    let ports: Vec<_> = ports.iter().map(|section| port(section, out)).collect();
    let places = file.sections("size", "[[size]]", SIZE, out);
    if places.is_empty() && !file.has("size") {
        let remedy = r#"add [[size]] with bytes = 1482, delay = "40us", served = 4 and queued = 100"#;
        out.push(file.missing("size", remedy));
    }
    let sizes: Vec<_> = places.iter().map(|section| size(section, inherited, out)).collect();
    let cpu = file.section("cpu", "[cpu]", CPU, out).map(|section| processor(&section, out));
    grow(&places, &sizes, out);
    if out.len() > before {
        return None;
    }
    let profile = DeviceProfile {
        name: name?,
        provenance: provenance?,
        ports: ports.into_iter().collect::<Option<_>>()?,
        sizes: sizes.into_iter().collect::<Option<_>>()?,
        cpu: cpu.flatten(),
    };
    fits(&profile, out).then_some(profile)
}

/// What stands in the place of values that measure the same.
fn hint(key: &str) -> Option<String> {
    match key {
        "servers" => Some("write for each [[size]] how many packets are `served` at once".to_owned()),
        "slots" => Some("write for each [[size]] how many packets are `queued`".to_owned()),
        _ => None,
    }
}

fn version(file: &Section<'_>, out: &mut Vec<Complaint>) {
    const NUMBER: Kind<u32> = Kind::number("1", |text| {
        text.parse().map_err(|_| ValueError::new(format!("{text} is no version"), "write version = 1"))
    });
    let version = file.required_at("version", NUMBER, "by which this format is known", out);
    if let Some(version) = version.filter(|version| *version.get_ref() != VERSION) {
        let reason = format!("this profile is of version {}", version.get_ref());
        let remedy = format!("this program reads version {VERSION}; make the profile anew");
        out.push(Complaint::new(reason, remedy).at(version.span()));
    }
}

fn provenance(file: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Provenance> {
    if !file.has("provenance") {
        let remedy =
            r#"add [provenance] with confidence = "estimated" and source = "…", where the numbers are from"#;
        out.push(file.missing("provenance", remedy));
    }
    let section = file.section("provenance", "[provenance]", PROVENANCE, out)?;
    let confidence =
        section.required("confidence", Confidence::KIND, "of numbers that don't say otherwise", out);
    let source = section.required("source", TEXT, "where the numbers are from", out);
    let machine = ["machine", "machine_95"].map(|key| section.optional(key, TIME, out));
    let [least, noise] = machine;
    Some(Provenance {
        made: section.optional("made", TEXT, out),
        machine: least.zip(noise).map(<[_; 2]>::from),
        remarks: section.list("remarks", TEXT, out).unwrap_or_default(),
        confidence: confidence?,
        source: source?,
    })
}

/// A line for people.
const TEXT: Kind<String> = Kind::text("\"…\"", |text| {
    let fits = (1..=400).contains(&text.chars().count()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| {
        ValueError::new("this is no line of text", "write one of up to 400 characters, without line breaks")
    })
});

choice! {
    /// What a queue drops before it is full, by its name alone.
    enum QueueName: "queue discipline", such as "codel" {
        DropTail = "drop-tail",
        CoDel = "codel",
    }
}

fn port(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<DevicePort> {
    const COUNT: Kind<usize> = Kind::number("4", |text| bounded(text, 1, MAX_PORTS));
    const FRAMING: Kind<usize> = Kind::number("18", |text| bounded(text, 0, 1000));
    let rate = section.required("rate", LINK_RATE, "what it transmits, framing included", out);
    let discipline = section.optional("discipline", QueueName::KIND, out);
    let count = section.optional("count", COUNT, out).unwrap_or(1);
    let framing = section.optional("framing", FRAMING, out);
    let queue = section.optional("queue", AMOUNT, out).unwrap_or(1.0);
    let extra = section.optional_at("extra", TIME, out);
    let extra = extra.and_then(|extra| served_for(*extra.get_ref(), extra.span(), out)).unwrap_or_default();
    let port = DevicePort::new(count, rate?, framing.unwrap_or(psmc_net::packet::ETHERNET_HEADER + 4));
    let discipline = match discipline {
        None | Some(QueueName::DropTail) => Discipline::DropTail,
        // RFC 8289 §4.2 and §4.3.
        Some(QueueName::CoDel) => Discipline::CoDel {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        },
    };
    Some(DevicePort { queue, discipline, extra, ..port })
}

fn size(section: &Section<'_>, inherited: Confidence, out: &mut Vec<Complaint>) -> Option<DeviceSize> {
    const BYTES: Kind<usize> = Kind::number("1482", |text| bounded(text, 20, MAX_BYTES));
    let bytes = section.required("bytes", BYTES, "from the IP header on", out);
    let delay = figure(section, "delay", SECONDS, "how long one is served", inherited, out);
    let served = figure(section, "served", AMOUNT, "how many are served at once", inherited, out);
    let queued = figure(section, "queued", AMOUNT, "how many a queue holds", inherited, out);
    Some(DeviceSize { bytes: bytes?, delay: delay?, served: served?, queued: queued? })
}

fn processor(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<CpuConfig> {
    const RING: Kind<usize> = Kind::number("300", |text| bounded(text, 1, 1_000_000));
    let time = section.required_at("time", TIME, "how long a packet takes it", out);
    let control = section.optional_at("control", TIME, out);
    let ring = section.required("ring", RING, "how many packets wait for it", out);
    let is_shared = section.optional("shared", SWITCH, out).unwrap_or(false);
    let [time, control] =
        [time, control].map(|time| time.and_then(|time| served_for(*time.get_ref(), time.span(), out)));
    Some(cpu(time?, control.unwrap_or(time?), ring?, is_shared))
}

/// A time that the model can have.
fn served_for(time: Duration, place: Range<usize>, out: &mut Vec<Complaint>) -> Option<Duration> {
    if time <= MAX_TIME {
        return Some(time);
    }
    let reason = format!("no packet is served for {time:?}");
    out.push(Complaint::new(reason, format!("choose at most {MAX_TIME:?}")).at(place));
    None
}

/// The numbers of packets that a profile may have.
pub(super) const AMOUNTS: RangeInclusive<f64> = 1e-6..=1e9;

/// A number above zero.
const AMOUNT: Kind<f64> = Kind::decimal("2.786", |text| {
    let value = text.parse().ok().filter(|value| AMOUNTS.contains(value));
    value.ok_or_else(|| {
        ValueError::new(format!("{text} is out of range"), "choose a number above 0, up to a billion")
    })
});

/// A time, in seconds.
const SECONDS: Kind<f64> = Kind::text("\"12.997us\"", |text| match TIME.read(text)? {
    time if time <= MAX_TIME => Ok(time.as_secs_f64()),
    _ => Err(ValueError::new(
        format!("no packet is served for {text}"),
        format!("choose at most {MAX_TIME:?}"),
    )),
});

fn bounded(text: &str, least: usize, most: usize) -> Result<usize, ValueError> {
    within(text, least..=most, format_args!("{text} is out of range"), format!("choose {least} to {most}"))
}

/// A value alone, or a table of it with its bounds and what it is worth.
fn figure(
    section: &Section<'_>,
    key: &'static str,
    kind: Kind<f64>,
    remedy: &str,
    inherited: Confidence,
    out: &mut Vec<Complaint>,
) -> Option<Figure> {
    if section.value(key).is_none_or(|value| value.get_ref().as_table().is_none()) {
        let value = section.required(key, kind, remedy, out)?;
        return Some(Figure { estimate: Estimate::exactly(value), confidence: inherited });
    }
    let table = section.section(key, "a number with bounds", FIGURE, out)?;
    let value = table.required("value", kind, "what it most likely is", out);
    let [low, high] = ["low", "high"].map(|key| table.optional(key, kind, out));
    let confidence = table.optional("confidence", Confidence::KIND, out).unwrap_or(inherited);
    let value = value?;
    let high = high.unwrap_or(if confidence == Confidence::AtLeast { f64::INFINITY } else { value });
    let estimate = Estimate { value, low: low.unwrap_or(value), high };
    if estimate.low > value || high < value {
        let reason = format!("`{key}` does not lie between its own bounds");
        out.push(Complaint::new(reason, "`low` is at most `value`, and `high` at least").at(table.place()));
        return None;
    }
    Some(Figure { estimate, confidence })
}

/// Lengths have to grow, as those of a table do.
fn grow(places: &[Section<'_>], sizes: &[Option<DeviceSize>], out: &mut Vec<Complaint>) {
    for (at, pair) in sizes.windows(2).enumerate() {
        if let [Some(one), Some(next)] = pair
            && one.bytes >= next.bytes
        {
            let reason = format!("{} bytes come after {}", next.bytes, one.bytes);
            let complaint = Complaint::new(reason, "put sizes into the order of their bytes, each once");
            out.push(complaint.at(places[at + 1].place()).because_of(places[at].place(), "this one"));
        }
    }
}

/// Whether the model takes all of it together.
fn fits(profile: &DeviceProfile, out: &mut Vec<Complaint>) -> bool {
    let Err(error) = profile.config(profile.port_count()) else { return true };
    let remedy = match error {
        ProfileConfigError::Amount(_) => "choose numbers from a millionth to a billion",
        ProfileConfigError::Table(_) | ProfileConfigError::Router(_) => {
            "see docs/ROUTERS.md for what the numbers mean"
        }
    };
    out.push(Complaint::new(format!("no device is like this: {error}"), remedy));
    false
}
