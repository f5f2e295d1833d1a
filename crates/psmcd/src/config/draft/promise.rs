//! `[[sla.target]]`

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use psmc_stamp::{Key, PORT};
use psmc_toml::{
    Complaint, INTERFACE, InterfaceName, Kind, NAME, Name, RATE, Rate, SWITCH, Section, Source, ValueError,
    draft, number_and_unit, scaled,
};
use toml::Spanned;

use super::sla::key;
use crate::config::promise::{DelayLimit, Measured, Method, Promise};

/// What is looked at together where the file does not say: enough for a thousand packets at 100 packets/s.
const USUAL_WINDOW: Duration = Duration::from_secs(10);

/// From one probe to the next where the file does not say: a window has a hundred of them.
const USUAL_INTERVAL: Duration = Duration::from_millis(100);

/// A time in microseconds, from `least` to `most`.
pub(super) fn time(text: &str, least: Duration, most: Duration) -> Result<Duration, ValueError> {
    let (number, unit) = number_and_unit(text);
    let size = match unit {
        "us" => Some(1),
        "ms" => Some(1_000),
        "s" => Some(1_000_000),
        "min" => Some(60_000_000),
        _ => None,
    };
    let us = size.and_then(|size| scaled(number, size));
    let time = us.map(Duration::from_micros).filter(|time| (least..=most).contains(time));
    time.ok_or_else(|| {
        let remedy =
            format!("write a time from {least:?} to {most:?}, in ms or s, such as \"60ms\" or \"1.5s\"");
        ValueError::new(format!("{text:?} is no time that can be used here"), remedy)
    })
}

/// A limit of delay. A packet that is later than ten seconds is lost, for all who measure it.
const DELAY: Kind<Duration> =
    Kind::text("\"60ms\"", |text| time(text, Duration::from_micros(100), Duration::from_secs(10)));

/// Shorter ones hold too few blocks of counted datagrams, which are of half a second; longer ones tell of a breach when it is history.
const WINDOW: Kind<Duration> =
    Kind::text("\"10s\"", |text| time(text, Duration::from_secs(2), Duration::from_secs(600)));

/// Probes of STAMP: up to a hundred in a second are no burden, and in a window of 600 s there are at least ten.
const INTERVAL: Kind<Duration> =
    Kind::text("\"100ms\"", |text| time(text, Duration::from_millis(10), Duration::from_secs(60)));

/// A share of packets, in millionths.
const LOSS: Kind<u32> = Kind::text("\"0.5%\"", |text| {
    let percent = text.strip_suffix('%').map(str::trim_end);
    let ppm = percent.and_then(|percent| scaled(percent, 10_000)).and_then(|ppm| u32::try_from(ppm).ok());
    ppm.filter(|ppm| *ppm < 1_000_000).ok_or_else(|| {
        let remedy = "write per cent, from \"0%\" to less than \"100%\", such as \"0.5%\"; finer than \"0.0001%\" nothing is told";
        ValueError::new(format!("{text:?} is no share of packets"), remedy)
    })
});

/// A reflector: an address, and a port unless it is 862.
const REFLECTOR: Kind<SocketAddr> = Kind::text("\"192.0.2.1\"", |text| {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    address.or_else(|_| text.parse()).map_err(|_| {
        let remedy =
            "write its address, \"192.0.2.1\" or \"[2001:db8::1]:862\"; a name could change what is measured";
        ValueError::new(format!("{text:?} is no address of a reflector"), remedy)
    })
});

/// A program. What it is looked for in would be another one for each who starts psmcd.
const PROGRAM: Kind<PathBuf> = Kind::text("\"/etc/psmc/breach.sh\"", |text| {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        return Ok(path);
    }
    let remedy = "write its whole path, such as \"/etc/psmc/breach.sh\"; arguments belong into the program";
    Err(ValueError::new(format!("{text:?} is no path from the root"), remedy))
});

draft! {
    /// `[[sla.target]]`
    pub(in crate::config) struct PromiseDraft(section, out, source: &Source) {
        name: Option<Spanned<Name>> = required_at(NAME.like("\"hq\""), "what you call what was promised"),
        peer: Option<Spanned<Name>> = optional_at(NAME.like("\"hq\"")),
        stamp: Option<SocketAddr> = optional(REFLECTOR),
        ["key_file"] key: Option<Key> = { key(section, "key_file", source, out) },
        uplink: Option<InterfaceName> = optional(INTERFACE),
        interval: Option<Duration> = optional(INTERVAL),
        ["delay_p50", "delay_p95", "delay_p99"] delay: Option<DelayLimit> = { delay(section, out) },
        loss: Option<u32> = optional(LOSS),
        throughput: Option<Rate> = optional(RATE),
        class: Option<Spanned<Name>> = optional_at(NAME.like("\"voice\"")),
        probe: Option<bool> = optional(SWITCH),
        window: Option<Duration> = optional(WINDOW),
        on_breach: Option<PathBuf> = optional(PROGRAM),
        method: Option<Method> = optional(Method::KIND),
        /// What does not fit together.
        [] misfit: bool = { misfit(section, out) },
    }
}

impl PromiseDraft {
    pub(super) fn build(self) -> Option<Promise> {
        let measured = match (self.peer, self.stamp) {
            (Some(peer), _) => Measured::Peer(peer.into_inner()),
            (None, Some(reflector)) => Measured::Stamp {
                reflector,
                key: self.key,
                uplink: self.uplink,
                interval: self.interval.unwrap_or(USUAL_INTERVAL),
            },
            (None, None) => return None,
        };
        Some(Promise {
            name: self.name?.into_inner(),
            measured,
            delay: self.delay,
            loss_ppm: self.loss,
            throughput: self.throughput,
            class: self.class.map(Spanned::into_inner),
            probe: self.probe.unwrap_or(false),
            window: self.window.unwrap_or(USUAL_WINDOW),
            on_breach: self.on_breach,
            method: self.method.unwrap_or(Method::Counted),
        })
        .filter(|_| !self.misfit)
    }
}

const DELAYS: [(&str, u8); 3] = [("delay_p50", 50), ("delay_p95", 95), ("delay_p99", 99)];

fn delay(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<DelayLimit> {
    let given: Vec<_> = DELAYS.into_iter().filter(|(key, _)| section.has(key)).collect();
    if let [_, (key, _), ..] = given[..] {
        let remedy = "keep one of them here, and write another [[sla.target]] for the other";
        complain(section, key, "a target has one limit of delay", remedy, out);
    }
    let (key, percentile) = *given.first()?;
    section.optional(key, DELAY, out).map(|most| DelayLimit { percentile, most })
}

/// Complains about keys that do not fit together, and says whether some do not.
fn misfit(section: &Section<'_>, out: &mut Vec<Complaint>) -> bool {
    let before = out.len();
    match (section.has("peer"), section.has("stamp")) {
        (true, true) => {
            let remedy = "remove one of `peer` and `stamp`, or write two targets";
            complain(section, "stamp", "a target is about one thing", remedy, out);
        }
        (false, false) => {
            let remedy = r#"add peer = "hq", the name of a [[peer]], or stamp = "192.0.2.1", the address of a STAMP reflector"#;
            out.push(Complaint::new("the target does not say what is measured", remedy).at(section.place()));
        }
        (true, false) => {
            for key in ["key_file", "uplink", "interval"].into_iter().filter(|key| section.has(key)) {
                complain(
                    section,
                    key,
                    &format!("`{key}` is about STAMP, and this target about a peer"),
                    "remove it",
                    out,
                );
            }
        }
        (false, true) => {
            for key in ["throughput", "class", "probe", "method"].into_iter().filter(|key| section.has(key)) {
                let reason = format!("`{key}` is about a peer, and STAMP measures delay and loss only");
                complain(section, key, &reason, "remove it", out);
            }
        }
    }
    if section.has("class") && !section.has("throughput") {
        let remedy =
            "add throughput = \"20mbit\", or remove it: paths lose and delay packets of all classes alike";
        complain(section, "class", "`class` is about throughput, and the target promises none", remedy, out);
    }
    let limits = ["delay_p50", "delay_p95", "delay_p99", "loss", "throughput"];
    if !limits.into_iter().any(|key| section.has(key)) {
        let remedy = r#"add a limit, such as loss = "0.5%", delay_p95 = "60ms" or throughput = "20mbit""#;
        out.push(Complaint::new("the target promises nothing", remedy).at(section.place()));
    }
    let is_seed = section.value("method").and_then(|method| method.get_ref().as_str()) == Some("seed");
    if is_seed && !DELAYS.iter().any(|(key, _)| section.has(key)) {
        let remedy = r#"add delay_p95 = "60ms", beyond which it looks at the rest, or remove the method"#;
        complain(section, "method", "the method \"seed\" looks at delay first", remedy, out);
    }
    out.len() > before
}

fn complain(section: &Section<'_>, key: &str, reason: &str, remedy: &str, out: &mut Vec<Complaint>) {
    let place: Range<usize> = section.key_place(key).unwrap_or_else(|| section.place());
    out.push(Complaint::new(reason, remedy).at(place));
}
