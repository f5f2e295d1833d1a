//! What a scenario means, in a few lines.

use std::fmt::{self, Display};

use super::model::{Host, Link, Program, Scenario, Traffic, Tunnel};
use super::words::{direction_in_words, kind_in_words, listed, time};

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
