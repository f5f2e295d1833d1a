//! What a scenario means: in a few lines, and its parts in words for results and plots.

use std::fmt::{self, Display};
use std::time::Duration;

use psmc_sim::link::{Discipline, Jitter, LinkConfig, Loss, Probability, QueueLimit, Rate};
use psmc_toml::rate_text;

use super::model::{
    Action, Bound, Check, Host, Link, LinkId, Metric, Program, Scenario, Subject, Traffic, TrafficKind,
    Tunnel, TunnelId,
};

impl Scenario {
    /// What the file means, for a person who wrote it and wants to know whether it was understood.
    pub fn summary(&self) -> impl Display + '_ {
        fmt::from_fn(|f| {
            let (duration, interval) = (self.duration, self.sample_interval);
            writeln!(
                f,
                "scenario {}: {duration:?}, a value every {interval:?}, seed {}",
                self.name, self.seed
            )?;
            section(f, &self.hosts, |host, f| self.write_host(host, f))?;
            section(f, &self.links, |link, f| self.write_link(link, f))?;
            section(f, &self.routers, |router, f| {
                let (host, ports) = (&self.hosts[router.host.0].name, router.links.len());
                writeln!(f, "router {host}\n  like        {}, {ports} ports", router.profile)
            })?;
            section(f, &self.tunnels, |tunnel, f| self.write_tunnel(tunnel, f))?;
            section(f, &self.programs, |program, f| self.write_program(program, f))?;
            section(f, &self.traffic, |traffic, f| self.write_traffic(traffic, f))?;
            section(f, &self.events, |event, f| {
                writeln!(f, "after {} {}", time(event.at), self.action_in_words(&event.action))
            })?;
            section(f, &self.checks, |check, f| writeln!(f, "check {}", self.check_in_words(check)))
        })
    }

    fn write_host(&self, host: &Host, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "host {}", host.name)?;
        if let Some(nat) = host.nat {
            let (kind, outside) = (nat.kind.as_str(), &self.links[nat.outside.0].name);
            writeln!(f, "  NAT         {kind}, outside is {outside}")?;
        }
        host.routes.iter().try_for_each(|route| writeln!(f, "  route       {} via {}", route.to, route.via))
    }

    fn write_link(&self, link: &Link, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "link {}", link.name)?;
        for end in &link.ends {
            writeln!(f, "  {:<11} {}", self.hosts[end.host.0].name, listed(&end.addresses))?;
        }
        let [forward, back] = link.directions.each_ref().map(direction_in_words);
        if forward == back {
            writeln!(f, "  both ways   {forward}")?;
        } else {
            writeln!(f, "  forward     {forward}\n  back        {back}")?;
        }
        link.capture.as_ref().map_or(Ok(()), |path| writeln!(f, "  capture     {}", path.display()))
    }

    fn write_tunnel(&self, tunnel: &Tunnel, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tunnel {}", tunnel.name)?;
        for end in &tunnel.ends {
            let networks = if end.networks.is_empty() {
                String::new()
            } else {
                format!(", for {}", listed(&end.networks))
            };
            writeln!(f, "  {:<11} {}{networks}", self.hosts[end.host.0].name, listed(&end.addresses))?;
        }
        for path in &tunnel.paths {
            let settings = path.settings.iter().map(|(key, value)| format!(", {key} {value}"));
            let link = &self.links[path.link.0].name;
            writeln!(
                f,
                "  path        {} by {link} to {}{}",
                path.name,
                path.endpoint,
                settings.collect::<String>()
            )?;
        }
        tunnel.settings.iter().try_for_each(|(key, value)| writeln!(f, "  {key:<11} {value}"))
    }

    fn write_program(&self, program: &Program, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stop = program.stop.unwrap_or(self.duration);
        let host = &self.hosts[program.host.0].name;
        writeln!(f, "program {} on {host}, from {} to {}", program.name, time(program.start), time(stop))?;
        writeln!(f, "  {}", program.command.join(" "))
    }

    fn write_traffic(&self, traffic: &Traffic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [traffic.from, traffic.to].map(|host| &self.hosts[host.0].name);
        let Traffic { name, address, start, stop, .. } = traffic;
        writeln!(f, "traffic {name}, from {} to {}", time(*start), time(*stop))?;
        writeln!(f, "  {from} to {to} at {address}: {}", kind_in_words(&traffic.kind))
    }
}

/// All things of a kind, after an empty line.
fn section<T>(
    f: &mut fmt::Formatter<'_>,
    things: &[T],
    write: impl Fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    if !things.is_empty() {
        writeln!(f)?;
    }
    things.iter().try_for_each(|thing| write(thing, f))
}

impl Scenario {
    /// What an event does, such as `cut dsl`.
    #[must_use]
    pub fn action_in_words(&self, action: &Action) -> String {
        match action {
            Action::Cut(link) => format!("cut {}", self.link_name(*link)),
            Action::BlackHole(link, directions) => {
                format!("black hole on {}{}", self.link_name(*link), self.where_to(*link, *directions))
            }
            Action::Restore(link) => format!("restore {}", self.link_name(*link)),
            Action::Change(link, _) => format!("change {}", self.link_name(*link)),
            Action::Kill(program) => format!("kill {}", self.programs[program.0].name),
            Action::Restart(program) => format!("restart {}", self.programs[program.0].name),
            Action::KillSite(tunnel, end) => format!("kill {}", self.site_name(*tunnel, *end)),
            Action::RestartSite(tunnel, end) => format!("restart {}", self.site_name(*tunnel, *end)),
            Action::Roam(host, link, addresses) => {
                let (host, link) = (&self.hosts[host.0].name, self.link_name(*link));
                format!("{host} roams to {} on {link}", listed(addresses))
            }
            Action::Flood { from, to, rate, .. } => {
                format!("{} floods {to} with {}", self.hosts[from.0].name, rate_text(*rate))
            }
        }
    }

    /// What a check asks for, such as `download: goodput of at least 40 Mbit/s from 2s to 8s`.
    #[must_use]
    pub fn check_in_words(&self, check: &Check) -> String {
        let subject = match check.subject {
            Subject::Traffic(traffic) => self.traffic[traffic.0].name.clone(),
            Subject::Program(program) => self.programs[program.0].name.clone(),
            Subject::Link(link, direction) => {
                let mut directions = [false; 2];
                directions[direction] = true;
                self.link_name(link).to_owned() + &self.where_to(link, directions)
            }
        };
        let window = check
            .window
            .map(|[from, to]| format!(" from {} to {}", time(from), time(to)))
            .unwrap_or_default();
        format!("{subject}: {}{window}", bound_in_words(check.metric, check.bound))
    }

    fn link_name(&self, link: LinkId) -> &str {
        &self.links[link.0].name
    }

    /// As events call it.
    pub(super) fn site_name(&self, tunnel: TunnelId, end: usize) -> String {
        let tunnel = &self.tunnels[tunnel.0];
        format!("{}.{}", tunnel.name, self.hosts[tunnel.ends[end].host.0].name)
    }

    /// The direction, if it is one.
    fn where_to(&self, link: LinkId, directions: [bool; 2]) -> String {
        let to = match directions {
            [true, false] => 1,
            [false, true] => 0,
            [true, true] | [false, false] => return String::new(),
        };
        format!(" towards {}", self.hosts[self.links[link.0].ends[to].host.0].name)
    }
}

fn bound_in_words(metric: Metric, bound: Bound) -> String {
    let (what, unit) = match metric {
        Metric::Goodput => ("goodput of", " Mbit/s"),
        Metric::Bytes => ("", " bytes"),
        Metric::Loss => ("loss of", " %"),
        Metric::LongestGap => ("gaps of", " ms"),
        Metric::RttMedian => ("median RTT of", " ms"),
        Metric::Rtt99 => ("99th percentile of RTT of", " ms"),
        Metric::Delay99 => ("99th percentile of additional delay of", " ms"),
        Metric::ExitStatus => ("exit status of", ""),
    };
    let bound = match bound {
        Bound::AtLeast(least) => format!("at least {least}{unit}"),
        Bound::AtMost(most) => format!("at most {most}{unit}"),
        Bound::Between(least, most) if least.total_cmp(&most).is_eq() => format!("{least}{unit}"),
        Bound::Between(least, most) => format!("{least} to {most}{unit}"),
    };
    format!("{what} {bound}").trim_start().to_owned()
}

/// What a stream is like, such as `tcp, cubic, 4 flows`.
pub(super) fn kind_in_words(kind: &TrafficKind) -> String {
    let details = match kind {
        TrafficKind::Tcp { congestion_control, flows, bytes, multipath } => {
            let flows = if *flows == 1 { String::new() } else { format!(", {flows} flows") };
            let multipath = if *multipath { ", multipath" } else { "" };
            format!("{congestion_control}{flows}{}{multipath}", in_all(*bytes))
        }
        TrafficKind::Quic { congestion_control, bytes } => format!("{congestion_control}{}", in_all(*bytes)),
        TrafficKind::Udp { rate, payload, adaptive } => {
            let most = if *adaptive { "at most " } else { "" };
            format!("{most}{} in datagrams of {payload} bytes", rate_text(*rate))
        }
        TrafficKind::Requests { congestion_control, rate, request, response } => {
            format!("{congestion_control}, {rate} a second, {request} bytes for {response}")
        }
        TrafficKind::Ping { interval, payload } => format!("every {interval:?}, {payload} bytes"),
    };
    format!("{}, {details}", kind.name())
}

fn in_all(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default()
}

/// What a direction of a link is like, such as `50mbit, 10ms, queue of 84 packets`.
pub(super) fn direction_in_words(config: &LinkConfig) -> String {
    let chance = |name: &str, chance: Probability| {
        (chance > Probability::ZERO).then(|| format!("{} {name}", percent(chance)))
    };
    let limited = config.rate != Rate::Unlimited;
    let parts = [
        Some(rate_in_words(&config.rate)),
        Some(delay_in_words(config.delay, &config.jitter)),
        config.reordering.then(|| "reordering".to_owned()),
        loss_in_words(config.loss),
        chance("reordered", config.reorder),
        chance("duplicated", config.duplicate),
        chance("corrupted", config.corrupt),
        limited.then(|| queue_in_words(config.queue)),
        discipline_in_words(config.discipline),
        config.mtu.filter(|mtu| *mtu != 1500).map(|mtu| format!("MTU {mtu}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn rate_in_words(rate: &Rate) -> String {
    match rate {
        Rate::Unlimited => "no limit".to_owned(),
        Rate::Fixed(bits) => rate_text(*bits),
        Rate::Trace(trace) => format!("a trace of {} on average", rate_text(trace.mean_rate() / 1000 * 1000)),
    }
}

fn delay_in_words(delay: Duration, jitter: &Jitter) -> String {
    let delay = time(delay);
    match jitter {
        Jitter::None => delay,
        Jitter::Normal(deviation) => format!("{delay} ± {deviation:?}"),
        Jitter::Uniform(most) => format!("{delay} ± {most:?} uniformly"),
        Jitter::Samples(samples) => format!("{delay} and one of {} samples", samples.len()),
    }
}

fn loss_in_words(loss: Loss) -> Option<String> {
    match loss {
        Loss::None => None,
        Loss::Random(chance) => (chance > Probability::ZERO).then(|| format!("{} loss", percent(chance))),
        Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => Some(format!(
            "bursts of {} loss, else {} (to bad {}, to good {})",
            percent(loss_bad),
            percent(loss_good),
            percent(to_bad),
            percent(to_good)
        )),
    }
}

fn queue_in_words(queue: QueueLimit) -> String {
    match queue {
        QueueLimit::Packets(packets) => format!("queue of {packets} packets"),
        QueueLimit::Bytes(bytes) => format!("queue of {bytes} bytes"),
        QueueLimit::Time(time) => format!("queue of {time:?}"),
    }
}

fn discipline_in_words(discipline: Discipline) -> Option<String> {
    let marking = |ecn: bool| if ecn { " with ECN" } else { "" };
    match discipline {
        Discipline::DropTail => None,
        Discipline::Red { min_bytes, max_bytes, ecn, .. } => {
            Some(format!("RED from {min_bytes} to {max_bytes} bytes{}", marking(ecn)))
        }
        Discipline::Rio { ecn } => Some(format!("RED with three drop precedences{}", marking(ecn))),
        Discipline::FqCoDel { target, interval, ecn } => {
            Some(format!("FQ-CoDel at {target:?} in {interval:?}{}", marking(ecn)))
        }
        Discipline::CoDel { target, interval, ecn } => {
            Some(format!("CoDel at {target:?} in {interval:?}{}", marking(ecn)))
        }
    }
}

/// As short as it can be: 0.1 %, not 0.10000000000000001 %.
fn percent(chance: Probability) -> String {
    let rounded = (chance.get() * 1e8).round() / 1e6;
    format!("{rounded}%")
}

/// A time as the file has it: `0s`, not `0ns`.
pub(super) fn time(time: Duration) -> String {
    if time.is_zero() { "0s".to_owned() } else { format!("{time:?}") }
}

pub(super) fn listed<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
