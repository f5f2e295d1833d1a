//! A sender and a receiver, links between them, and a tunnel with a path over each: what most experiments need.
//!
//! Rates of links are those of the seeds, whose nodes take off the outer header before they limit a packet. Ours pass on
//! whole datagrams, so the rate of a link below a tunnel is higher, by what the tunnel adds to a full-size packet.

use std::fmt::{Display, Write};

use super::Setup;
use psmc_lab::headers;
use psmc_lab::results::{Results, Sample, TrafficResult};

/// Bytes of a full-size packet in the tunnel, whose MTU is the default one.
const INNER: u32 = 1400;

/// Payload of a datagram that makes a full-size packet.
const UDP_PAYLOAD: u32 = 1372;

/// Payload of a full-size packet of TCP with timestamps (RFC 7323).
const TCP_PAYLOAD: u32 = 1348;

/// A full-size packet of TCP outside the tunnel, and its payload.
const PLAIN: (u32, u32) = (1500, 1448);

/// The rate of a link, in bit/s, over which full-size packets reach this rate in the tunnel.
pub(super) fn raised(bits: u64) -> u64 {
    raised_by(0, bits)
}

/// The same for a tunnel whose datagrams carry so many bytes more.
pub(super) fn raised_by(more: u32, bits: u64) -> u64 {
    bits * u64::from(INNER + headers::TUNNEL + more) / u64::from(INNER)
}

/// A link, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// What it carries of inner packets.
    pub(super) kilobits: u32,
    /// In each direction.
    pub(super) delay_ms: u32,
    /// On the way from the sender.
    pub(super) loss_percent: f64,
    /// Of the path over it.
    pub(super) weight: u32,
}

/// A scenario in the making.
#[derive(Clone, Debug)]
pub(super) struct Bed {
    links: Vec<Link>,
    /// Of the tunnel; no tunnel without.
    settings: Option<String>,
    streams: String,
    events: String,
    sample_ms: u32,
}

/// A stream of traffic from the sender to the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stream {
    /// As much as TCP with Reno carries, or so many bytes.
    Reno {
        /// To be transferred.
        bytes: Option<u64>,
    },
    /// Full-size packets at this rate.
    Udp {
        /// Of packets in the tunnel.
        kilobits: u32,
    },
}

/// From when to when, in seconds since everything was up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span(pub(super) f64, pub(super) f64);

impl Link {
    pub(super) const fn new(kilobits: u32, delay_ms: u32) -> Self {
        Self { kilobits, delay_ms, loss_percent: 0.0, weight: 1 }
    }
}

impl Bed {
    /// A link for each path of a tunnel with the settings that it has by default.
    pub(super) fn tunnel(links: impl IntoIterator<Item = Link>) -> Self {
        Self { settings: Some(String::new()), ..Self::direct(links) }
    }

    /// Links without a tunnel. Traffic goes over the first.
    pub(super) fn direct(links: impl IntoIterator<Item = Link>) -> Self {
        Self {
            links: links.into_iter().collect(),
            settings: None,
            streams: String::new(),
            events: String::new(),
            sample_ms: 100,
        }
    }

    /// A setting of the tunnel, as `psmcd` takes it.
    pub(super) fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        if let Some(settings) = &mut self.settings {
            line(settings, &format!("settings.{key}"), value.into());
        }
        self
    }

    /// A stream for as long as it says.
    pub(super) fn stream(mut self, name: &str, stream: Stream, Span(start, stop): Span) -> Self {
        let via = if self.settings.is_some() { "tunnel" } else { "path1" };
        self.streams += &format!(
            "[[traffic]]\nname = \"{name}\"\nfrom = \"sender\"\nto = \"receiver\"\nvia = \"{via}\"\n\
             start = \"{start}s\"\nstop = \"{stop}s\"\n{}\n",
            stream.settings()
        );
        self
    }

    /// Something that happens: `cut = "path1"`, for one.
    pub(super) fn event(mut self, at: f64, what: &str) -> Self {
        self.events += &format!("[[event]]\nat = \"{at}s\"\n{what}\n\n");
        self
    }

    /// How often links and paths are looked at.
    pub(super) fn sample_ms(self, sample_ms: u32) -> Self {
        Self { sample_ms, ..self }
    }

    /// Runs it; `None` if that was not possible, of which the user has been told.
    pub(super) fn run(&self, setup: &mut Setup<'_>, name: &str, seconds: u32) -> Option<Results> {
        setup.run(name, &self.scenario(seconds))
    }

    /// As [`Setup::run`] takes it.
    pub(super) fn scenario(&self, seconds: u32) -> String {
        let sample = self.sample_ms;
        let head = format!("duration = \"{seconds}s\"\nsample = \"{sample}ms\"\n\n");
        let links: String = (1..).zip(&self.links).map(|(number, link)| self.link(number, *link)).collect();
        head + &links + &self.tunnel_section() + &self.streams + &self.events
    }

    fn link(&self, number: u32, link: Link) -> String {
        let nominal = u64::from(link.kilobits) * 1000;
        let rate = if self.settings.is_some() { raised(nominal) } else { nominal };
        let Link { delay_ms, loss_percent, .. } = link;
        let mut text = format!(
            "[[link]]\nname = \"path{number}\"\nbetween = [\"sender\", \"receiver\"]\nrate = \"{rate}bit\"\n\
             delay = \"{delay_ms}ms\"\n"
        );
        if loss_percent > 0.0 {
            text += &format!("forward = {{ loss = \"{loss_percent}%\" }}\n");
        }
        text + "\n"
    }

    fn tunnel_section(&self) -> String {
        let Some(settings) = &self.settings else { return String::new() };
        let path = |(number, Link { weight, .. }): (u32, &Link)| {
            format!("[[tunnel.path]]\nlink = \"path{number}\"\nweight = {weight}\n\n")
        };
        let paths: String = (1..).zip(&self.links).map(path).collect();
        format!("[[tunnel]]\nname = \"tunnel\"\nbetween = [\"sender\", \"receiver\"]\n{settings}\n{paths}")
    }
}

impl Stream {
    fn settings(self) -> String {
        match self {
            Self::Reno { bytes } => {
                let bytes = bytes.map_or_else(String::new, |bytes| format!("bytes = {bytes}\n"));
                format!("kind = \"tcp\"\ncongestion_control = \"reno\"\n{bytes}")
            }
            Self::Udp { kilobits } => {
                let bits = u64::from(kilobits) * 1000 * u64::from(UDP_PAYLOAD) / u64::from(INNER);
                format!("kind = \"udp\"\nrate = \"{bits}bit\"\npayload = {UDP_PAYLOAD}\n")
            }
        }
    }
}

impl Span {
    /// From the start; what is measured of it leaves out the first third, in which rates are found.
    pub(super) fn settled(seconds: u32) -> Self {
        let seconds = f64::from(seconds);
        Self(seconds / 3.0, seconds)
    }
}

/// What a stream got of the capacity in this time, in Mb/s of full-size packets, without what a tunnel adds to them.
pub(super) fn throughput(results: &Results, stream: &str, span: Span) -> Option<f64> {
    let rate = goodput(results, stream, span)?;
    let (packet, payload) = match (find(results, stream)?.kind.as_str(), results.paths.is_empty()) {
        ("udp", _) => (INNER, UDP_PAYLOAD),
        (_, true) => PLAIN,
        (_, false) => (INNER, TCP_PAYLOAD),
    };
    Some(rate * f64::from(packet) / f64::from(payload))
}

/// The payload that a stream got through in this time, in Mb/s.
pub(super) fn goodput(results: &Results, stream: &str, Span(start, stop): Span) -> Option<f64> {
    let inside = |sample: &&Sample| sample.at_s > start + HALF_SAMPLE && sample.at_s < stop + HALF_SAMPLE;
    let rates = find(results, stream)?.goodput_series_mbps.iter().filter(inside);
    mean(&rates.map(|sample| sample.value).collect::<Vec<_>>())
}

fn find<'a>(results: &'a Results, stream: &str) -> Option<&'a TrafficResult> {
    results.traffic.iter().find(|result| result.name == stream)
}

/// The mean, of one value at least.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

/// "1 path", "2 paths".
pub(super) fn paths(number: u32) -> String {
    if number == 1 { "1 path".to_owned() } else { format!("{number} paths") }
}

/// Samples end at multiples of an interval of no less than 10 ms.
const HALF_SAMPLE: f64 = 0.005;

fn line(text: &mut String, key: &str, value: impl Display) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{key} = {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_count_inner_packets() {
        assert_eq!(raised(1_400_000), 1_467_000);
        let bed = |bed: Bed| bed.set("reorder", "off").scenario(1);
        assert!(bed(Bed::tunnel([Link::new(1400, 5)])).contains("rate = \"1467000bit\""));
        let direct = bed(Bed::direct([Link::new(1400, 5)]));
        assert!(direct.contains("rate = \"1400000bit\"") && !direct.contains("reorder"), "{direct}");
    }

    #[test]
    fn a_scenario_has_what_was_asked_for() {
        let lossy = Link { loss_percent: 0.5, ..Link::new(2000, 10) };
        let bed = Bed::tunnel([lossy, Link::new(200, 10)])
            .set("repair", "off")
            .stream("udp", Stream::Udp { kilobits: 1400 }, Span(0.0, 2.5))
            .stream("tcp", Stream::Reno { bytes: Some(1000) }, Span(1.0, 3.0))
            .event(1.5, "cut = \"path2\"")
            .sample_ms(10);
        insta::assert_snapshot!(bed.scenario(3));
    }

    #[test]
    fn the_start_does_not_count() {
        assert_eq!(Span::settled(9), Span(3.0, 9.0));
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
        assert_eq!(mean(&[]), None);
    }
}
