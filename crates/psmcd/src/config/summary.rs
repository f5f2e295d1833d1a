//! What a configuration means, in a few lines.

use std::fmt::{self, Display};

use psmc_core::condition::Conditioning;
use psmc_core::police::PoliceMode;
use psmc_core::{AdaptiveBuffer, ClampMss, Direction, Gateway, PathPreference, ReorderPolicy, Tier};
use psmc_toml::rate_text;

use super::model::{
    Class, Config, Internet, Invitation, PathCongestion, PathSettings, Paths, Peer, Site, Sla, Treatment,
    TunnelEnd,
};
use super::preset::Chosen;
use super::value::{Tcp, Transport, clamp_mss_in_words};

/// So many files and sockets may be open where nobody has said anything else.
const USUAL_FILES: usize = 1024;

impl Config {
    /// What the file means, for a person who wrote it and wants to know whether it was understood.
    pub fn summary(&self) -> impl Display + '_ {
        fmt::from_fn(|f| {
            self.write_site(f)?;
            self.peers.iter().try_for_each(|peer| write_peer(peer, f))?;
            self.write_invitations(f)?;
            self.write_relays(f)
        })
    }

    fn write_site(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = &self.site;
        writeln!(f, "site {}", site.name)?;
        writeln!(f, "  public key   {}", site.private_key.public())?;
        writeln!(f, "  addresses    {}", joined(&site.addresses))?;
        if site.is_hidden {
            writeln!(f, "  listens on   nothing: it is hidden behind its relays")?;
        } else {
            writeln!(f, "  listens on   {}", site.listen)?;
        }
        if let Some(listen) = site.listen_tls {
            writeln!(f, "  and on       {listen}, for TLS")?;
        }
        if let Some(endpoint) = &site.endpoint {
            writeln!(f, "  reached at   {endpoint}")?;
        }
        if !site.networks.is_empty() {
            writeln!(f, "  networks     {}", joined(&site.networks))?;
        }
        if site.is_hidden && site.register.is_empty() {
            writeln!(f, "  registers with relays given at run time")?;
        } else if !site.register.is_empty() {
            writeln!(f, "  registers at {}", joined(&site.register))?;
        }
        let name = site.interface.as_ref().map_or("the next free psmc0, psmc1, …", |name| name.as_str());
        match site.mtu {
            Some(mtu) => writeln!(f, "  interface    {name}, MTU {mtu}")?,
            None => writeln!(f, "  interface    {name}, MTU as the paths have room")?,
        }
        if site.clamp_mss != ClampMss::default() {
            writeln!(f, "  MSS of TCP   {}", clamp_mss_in_words(site.clamp_mss))?;
        }
        if site.is_quiet {
            writeln!(f, "  quiet        answers nobody who does not know its public key")?;
        }
        if let Some(police) = site.unresponsive {
            let floor = police.floor / 1000;
            match police.mode {
                PoliceMode::Police => {
                    writeln!(f, "  unresponsive held to what arrives of them, {floor} kbit/s at least")?;
                }
                PoliceMode::Seed { .. } => {
                    writeln!(f, "  unresponsive plain UDP that is dropped, as in the literature")?;
                }
            }
        }
        if site.speedtest {
            writeln!(f, "  speed tests  peers may run them")?;
        }
        if let Some(check) = &site.portal_check {
            writeln!(f, "  portals      looked for by {check}, over uplinks whose paths do not work")?;
        }
        writeln!(f, "  control      {}", site.control_socket)?;
        if let Some(metrics) = site.metrics {
            writeln!(f, "  metrics      at http://{metrics}/metrics")?;
        }
        write_sla(&site.sla, f)?;
        if let Some(web) = &site.web {
            let token = if web.token.is_some() { ", with a token" } else { "" };
            let orders = if web.orders { ", which may change paths" } else { "" };
            writeln!(f, "  web page     at http://{}/{token}{orders}", web.listen)?;
        }
        write_internet(site, f)?;
        let files = self.open_files();
        if files > USUAL_FILES {
            writeln!(f, "  open files   up to {files}")?;
        }
        write_classes(&site.classes, f)
    }

    fn write_invitations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, invitation) in self.invitations.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            let Invitation { name, allowed_ips, expires, .. } = invitation;
            writeln!(f, "{gap}invitation {name}: until {expires}, for {}", joined(allowed_ips))?;
        }
        Ok(())
    }

    fn write_relays(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, relay) in self.relays.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            writeln!(f, "{gap}relay {}: {}", relay.name, relay.address)?;
        }
        for (index, end) in self.tunnel_ends.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            let TunnelEnd { name, address, inside } = end;
            writeln!(f, "{gap}tunnel end {name}: {}, where this site is {inside}", address.host)?;
        }
        Ok(())
    }
}

/// What a site measures and tells of it.
fn write_sla(sla: &Sla, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(reflector) = &sla.reflector {
        let key = if reflector.key.is_some() { ", with a key" } else { ", for everybody" };
        let (listen, rate) = (reflector.listen, reflector.rate);
        writeln!(f, "  answers STAMP at {listen}{key}, up to {rate} packets/s of each source")?;
    }
    if let Some(ipfix) = &sla.ipfix {
        writeln!(f, "  flows        by IPFIX {ipfix}")?;
    }
    for promise in &sla.promises {
        let (name, measured, limits) = (&promise.name, &promise.measured, promise.limits());
        let window = promise.window.as_secs_f64();
        let probed = if promise.probe { ", probed when idle" } else { "" };
        writeln!(f, "  SLA {name}: {measured}, {limits} in {window} s{probed}")?;
    }
    for coordinator in &sla.coordinators {
        writeln!(f, "  attacks      are told to the coordinator {}", coordinator.address)?;
    }
    Ok(())
}

/// Classes, and what those with a profile may send.
fn write_classes(classes: &[Class], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !classes.is_empty() {
        let names: Vec<_> = classes.iter().map(|class| &class.name).collect();
        writeln!(f, "  classes      {}", joined(&names))?;
    }
    for Class { name, preset, .. } in classes {
        if let Some(Chosen { preset, sets }) = preset {
            writeln!(f, "  preset       {name}: {}, which sets {}", preset.as_str(), in_words(sets))?;
        }
    }
    for Class { name, paths: PathPreference { paths, avoid, strict }, .. } in classes {
        let said = [("over", paths), ("not over", avoid)].into_iter().filter(|(_, paths)| !paths.is_empty());
        let said: Vec<_> = said.map(|(how, paths)| format!("{how} {}", paths.join(", "))).collect();
        if !said.is_empty() {
            let only = if *strict { ", or not at all" } else { " while that is possible" };
            writeln!(f, "  way          {name}: {}{only}", said.join(", "))?;
        }
    }
    for Class { name, tcp, .. } in classes {
        match tcp {
            Some(Tcp::Split) => writeln!(f, "  TCP          of {name} ends at the sites")?,
            Some(Tcp::Forward) => writeln!(f, "  TCP          of {name} is forwarded")?,
            None => {}
        }
    }
    for class in classes {
        let Some(Conditioning { profile, mode, mark }) = class.conditioning else { continue };
        let mark = mark.map(|mark| format!(", marked AF{}x", mark.number())).unwrap_or_default();
        let (name, rate, burst, mode) = (&class.name, rate_text(profile.rate), profile.burst, mode.name());
        writeln!(f, "  profile      {name}: {rate}, bursts of {burst} bytes, conditioner {mode}{mark}")?;
    }
    Ok(())
}

/// What is changed on this machine, beside the interface, its routes and rules.
fn write_internet(site: &Site, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Internet { is_offered, dns, kill_switch, exclude } = &site.internet;
    if *is_offered {
        writeln!(f, "  internet     offered to peers: this machine forwards, and masquerades by nftables")?;
    }
    if !dns.is_empty() {
        writeln!(f, "  name servers {}, for this machine, as long as psmcd runs", joined(dns))?;
    }
    if *kill_switch {
        writeln!(
            f,
            "  kill switch  by nftables: nothing leaves but through the tunnel, even if psmcd is killed"
        )?;
    }
    if !exclude.is_empty() {
        writeln!(f, "  excluded     {}", joined(exclude))?;
    }
    Ok(())
}

fn write_peer(peer: &Peer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\npeer {}", peer.name)?;
    writeln!(f, "  public key   {}", peer.public_key)?;
    match &peer.endpoint {
        Some(endpoint) => writeln!(f, "  endpoint     {endpoint}")?,
        None if peer.is_behind_relays() => writeln!(f, "  endpoint     none: relays find it by its key")?,
        None if peer.routes.is_some() => writeln!(f, "  endpoint     none: routes to it are learned")?,
        None => writeln!(f, "  endpoint     none: this peer has to call")?,
    }
    writeln!(f, "  allowed ips  {}", joined(&peer.allowed_ips))?;
    if peer.gateway != Gateway::default() {
        let Gateway { priority, failback } = peer.gateway;
        let back = fmt::from_fn(|f| match failback {
            Some(time) => write!(f, "again after {} s", time.as_secs()),
            None => f.write_str("never again by itself"),
        });
        writeln!(f, "  priority     {priority} among those with the same networks; {back}")?;
    }
    if let Some(Chosen { preset, sets }) = &peer.preset {
        writeln!(f, "  preset       {}, which sets {}", preset.as_str(), in_words(sets))?;
    }
    write_treatment(&peer.treatment, f)?;
    if let Some(rate) = peer.udp_rate_limit {
        writeln!(f, "  plain UDP    at most {rate}")?;
    }
    writeln!(f, "  keepalive    every {} s", peer.keepalive.as_secs())?;
    if !peer.spare_relays.is_empty() {
        writeln!(f, "  spare relays {}", joined(&peer.spare_relays))?;
    }
    if let Some(policy) = peer.routes {
        writeln!(f, "  new routes   {policy}")?;
    }
    match &peer.paths {
        Paths::EveryUplink if peer.endpoint.is_none() && peer.routes.is_none() => {
            writeln!(f, "  paths        those that the peer opens: it dials in")
        }
        Paths::EveryUplink => writeln!(f, "  paths        one over every uplink there is"),
        Paths::Listed(paths) => paths
            .chunk_by(|_, next| next.is_further_flow())
            .try_for_each(|path| write_path(&path[0], path.len(), peer, f)),
    }
}

fn write_treatment(treatment: &Treatment, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rule = if treatment.bad_path_rule { " without bad paths" } else { "" };
    write!(f, "  scheduler    {}{rule}, reorder ", treatment.scheduler.name())?;
    match treatment.reorder {
        ReorderPolicy::Deadline => write!(f, "deadline")?,
        ReorderPolicy::Fixed { timeout, packets } => {
            write!(f, "fixed: {packets} packets, {} ms", timeout.as_millis())?;
        }
        ReorderPolicy::Adaptive(AdaptiveBuffer { factor, least, most, .. }) => {
            write!(f, "adaptive: {factor} times the least, {least} to {most} packets at first")?;
        }
        ReorderPolicy::Off => write!(f, "off")?,
    }
    if treatment.ordered_udp {
        write!(f, ", plain UDP too")?;
    }
    writeln!(f, ", repair {}", treatment.repair.name())?;
    if treatment.tcp == Tcp::Split {
        writeln!(f, "  TCP          ends at the sites")?;
    }
    Ok(())
}

fn write_path(path: &PathSettings, flows: usize, peer: &Peer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "  path {:<7} ", path.name)?;
    match (&path.interface, path.address) {
        (Some(interface), Some(address)) => write!(f, "by {interface}, from {address}")?,
        (Some(interface), None) => write!(f, "by {interface}")?,
        (None, Some(address)) => write!(f, "from {address}")?,
        (None, None) => write!(f, "by the routing table")?,
    }
    if let Some(endpoint) = path.endpoint.as_ref().filter(|endpoint| peer.endpoint.as_ref() != Some(endpoint))
    {
        write!(f, ", to {endpoint}")?;
    }
    if !path.relays.is_empty() {
        write!(f, ", through {}", joined(&path.relays))?;
    }
    match path.transport {
        Transport::Udp => {}
        Transport::IpIp => write!(f, " by IP-in-IP")?,
        Transport::Tls => write!(f, ", in a stream of TLS")?,
        Transport::Auto => write!(f, ", in a stream of TLS while nothing comes by UDP")?,
    }
    let each = if flows > 1 { " each" } else { "" };
    if flows > 1 {
        write!(f, ", over {flows} flows, the last of them {}-{flows}", path.name)?;
    }
    write!(f, ", weight {}", path.weight)?;
    if path.tier != Tier::default() {
        write!(f, ", {}", path.tier.name())?;
    }
    match path.direction {
        Direction::Both => {}
        Direction::Up => f.write_str(", only to the peer")?,
        Direction::Down => f.write_str(", only from the peer")?,
    }
    if let Some(quota) = path.quota {
        write!(f, ", {quota}")?;
    }
    match (path.congestion, path.max_rate) {
        (PathCongestion::Fixed(rate), _) => write!(f, ", always {rate}/s{each}")?,
        (PathCongestion::Model | PathCongestion::Cubic, Some(rate)) => write!(f, ", at most {rate}/s{each}")?,
        (PathCongestion::Model | PathCongestion::Cubic, None) => {}
    }
    if path.congestion == PathCongestion::Cubic {
        write!(f, ", CUBIC")?;
    }
    if let Some(mtu) = path.mtu {
        write!(f, ", MTU {}", mtu.get())?;
    }
    writeln!(f)
}

/// What a preset sets.
fn in_words(sets: &[String]) -> String {
    if sets.is_empty() { "nothing that is not written beside it".to_owned() } else { sets.join(", ") }
}

fn joined<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}
