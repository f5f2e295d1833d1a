//! `psmc status`, and the tables of paths that it has in common with `psmc path`.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::units::{age, bytes, duration_ms, rate_mbps};
use super::{CliError, output, routes};
use psmc_api::{
    Batches, Calls, ClassStatus, Client, ConditionerStatus, IpfixStatus, Marked, PathEcn, PathSlot,
    PathStatus, PeerState, PeerStatus, SiteStatus, Status, StreamsStatus, WaitingPath,
};

pub(super) fn run(client: &mut Client, json: bool) -> Result<(), CliError> {
    let status = client.status()?;
    let text = if json { output::json(&status)? } else { text(&status) };
    Ok(output::print(&text)?)
}

/// The status for a person to read.
fn text(status: &Status) -> String {
    fmt::from_fn(|f| write_status(status, f)).to_string()
}

fn write_status(status: &Status, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write_site(&status.site, out)?;
    if let Some(ipfix) = &status.ipfix {
        write_ipfix(ipfix, out)?;
    }
    for peer in &status.peers {
        write_peer(peer, out)?;
    }
    write_conditioners(&status.conditioners, out)?;
    write_batches(&status.batches, out)?;
    write_counters(&status.counters, out)
}

/// What the site as a whole has counted, each kind in a line of its own: an accepted connection is no refused datagram.
fn write_counters(counters: &BTreeMap<String, u64>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut kinds: BTreeMap<Kind, BTreeMap<String, u64>> = BTreeMap::new();
    for (name, count) in counters {
        let (kind, name) = Kind::of(name);
        kinds.entry(kind).or_default().insert(name.to_owned(), *count);
    }
    let lines: Vec<_> = kinds.iter().filter_map(|(kind, counters)| Some((kind, counts(counters)?))).collect();
    if !lines.is_empty() {
        writeln!(out)?;
    }
    lines.iter().try_for_each(|(kind, counts)| writeln!(out, "{}: {counts}", kind.title()))
}

/// What a counter of the site counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Connections,
    Nobodys,
    Refused,
    Dropped,
}

impl Kind {
    /// That of the counter of this name, and what it is called among its like.
    fn of(name: &str) -> (Self, &str) {
        match name.strip_prefix("control_") {
            Some(name) => (Self::Connections, name),
            None => match name {
                "no_route" => (Self::Nobodys, "for no peer"),
                "bad_packet" => (Self::Nobodys, "of no known form"),
                "tun_drops" => (Self::Dropped, "by the interface"),
                "send_drops" => (Self::Dropped, "by the network"),
                "log_lines_lost" => (Self::Dropped, "lines of the log"),
                name => (Self::Refused, name),
            },
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Connections => "control connections",
            Self::Nobodys => "packets left aside",
            Self::Refused => "refused datagrams",
            Self::Dropped => "dropped",
        }
    }
}

/// How many packets each system call carried on average.
fn write_batches(batches: &Batches, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Batches { tun_read, tun_written, udp_received, udp_sent } = *batches;
    let mean = |Calls { calls, packets }: Calls| packets as f64 / calls.max(1) as f64;
    writeln!(out, "\naverage packets per system call")?;
    writeln!(out, "  interface    {:.1} read, {:.1} written", mean(tun_read), mean(tun_written))?;
    writeln!(out, "  network      {:.1} received, {:.1} sent", mean(udp_received), mean(udp_sent))
}

fn write_site(site: &SiteStatus, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "site {}, up {}, psmcd {}", site.name, age(site.uptime_s), site.version)?;
    writeln!(out, "  public key   {}", site.public_key)?;
    writeln!(out, "  interface    {}: {}", site.interface, site.addresses.join(", "))?;
    writeln!(out, "  listens on   {}", site.listen)?;
    for notice in &site.notices {
        writeln!(out, "  attention    {notice}")?;
    }
    for relay in &site.registered {
        writeln!(out, "  gateway at   {}", routes::registration_summary(relay))?;
    }
    Ok(())
}

fn write_ipfix(ipfix: &IpfixStatus, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let IpfixStatus { collector, messages, records, unsent_messages, unsent_records, trouble } = ipfix;
    writeln!(out, "  flows        {records} records in {messages} messages to {collector}")?;
    if let Some(trouble) = trouble {
        writeln!(out, "  attention    cannot export flows: {trouble}")?;
    }
    if *unsent_messages > 0 {
        writeln!(
            out,
            "               not sent and lost: {unsent_records} records in {unsent_messages} messages"
        )?;
    }
    Ok(())
}

fn write_peer(peer: &PeerStatus, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(out, "\npeer {}: {}", peer.name, headline(peer))?;
    writeln!(out, "  public key   {}", peer.public_key)?;
    writeln!(out, "  allowed ips  {}", peer.allowed_ips.join(", "))?;
    if !peer.stands_by_for.is_empty() {
        writeln!(out, "  stands by    for {}, which another peer has now", peer.stands_by_for.join(", "))?;
    }
    if let Some(software) = &peer.software {
        writeln!(out, "  runs         {software}")?;
    }
    if peer.added {
        writeln!(out, "  added        until psmcd ends")?;
    }
    writeln!(out, "  scheduler    {}", peer.scheduler)?;
    if let Some(routes) = &peer.routes {
        writeln!(out, "  routes       {}", routes::routes_summary(routes))?;
    }
    writeln!(out, "  control      {}", control(peer))?;
    if let (Some(epoch), Some(key_age)) = (peer.epoch, peer.key_age_s) {
        let exchanged = match peer.key_exchanges {
            0 => String::new(),
            1 => ", after a key exchange through the tunnel".to_owned(),
            many => format!(", after {many} key exchanges through the tunnel"),
        };
        writeln!(out, "  data key     number {epoch}, {} old{exchanged}", age(key_age))?;
    }
    if let Some(ago) = peer.keys_expired_s {
        writeln!(
            out,
            "  stopped      the data keys expired {} ago: nothing passes without a control connection",
            age(ago)
        )?;
    }
    let (sent, received) = (bytes(peer.tx_bytes), bytes(peer.rx_bytes));
    writeln!(out, "  sent         {sent} in {} packets", peer.tx_packets)?;
    writeln!(out, "  received     {received} in {} packets", peer.rx_packets)?;
    if let Some(limit) = peer.udp_rate_limit_mbps {
        writeln!(out, "  plain UDP    at most {}", rate_mbps(limit))?;
    }
    if let Some(drops) = counts(&peer.drops) {
        writeln!(out, "  dropped      {drops}")?;
    }
    if let Some(streams) = &peer.streams {
        writeln!(out, "  ended TCP    {}", ended(streams))?;
    }
    for class in peer.classes.iter().filter(|class| class.is_used()) {
        write_class(class, out)?;
    }
    write_shared_uplinks(&peer.paths, out)?;
    write_bottlenecks(&peer.paths, out)?;
    write_marks(&peer.paths, out)?;
    write_sizes(&peer.paths, out)?;
    write_slots(&peer.paths, out)?;
    write_seen(&peer.paths, out)?;
    out.write_str(&path_table(&peer.paths))?;
    out.write_str(&path_reasons(&peer.paths))?;
    peer.waiting.iter().try_for_each(|path| writeln!(out, "  {}", waiting(path)))
}

/// Which path cannot be opened, and why.
pub(super) fn waiting(path: &WaitingPath) -> String {
    let since = age(path.since_s);
    match &path.name {
        Some(name) => format!("path {name}: cannot be opened for {since}: {}", path.why),
        None => format!("no paths yet for {since}: {}", path.why),
    }
}

/// Which paths share an uplink, and so its rate.
fn write_shared_uplinks(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut by_uplink: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        if let Some(uplink) = &path.uplink {
            by_uplink.entry(uplink).or_default().push(&path.name);
        }
    }
    for (uplink, names) in by_uplink.iter().filter(|(_, names)| names.len() > 1) {
        writeln!(out, "  one uplink   {uplink}: {}", names.join(", "))?;
    }
    Ok(())
}

/// Which paths are found to share a bottleneck, and so its rate.
fn write_bottlenecks(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut by_number: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for path in paths {
        if let Some(number) = path.bottleneck {
            by_number.entry(number).or_default().push(&path.name);
        }
    }
    for names in by_number.values() {
        writeln!(out, "  bottleneck   {} share one", names.join(", "))?;
    }
    Ok(())
}

/// What is known of congestion marks on the paths, where anything is.
fn write_marks(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let words = paths.iter().filter_map(|path| match path.ecn {
        PathEcn::Trying => None,
        PathEcn::Capable => Some(format!("{} {:.1} % marked", path.name, path.marked_pct)),
        PathEcn::Failed => Some(format!("{} carries no marks: it is used without", path.name)),
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() { Ok(()) } else { writeln!(out, "  ECN          {}", words.join(", ")) }
}

/// Which paths carry less than their interfaces.
fn write_sizes(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (path, whole) in paths.iter().filter_map(|path| Some((path, path.narrower_than?))) {
        let PathStatus { name, mtu, .. } = path;
        writeln!(
            out,
            "  size         {name} carries packets of up to {mtu} bytes, and its interface {whole}"
        )?;
    }
    Ok(())
}

/// Which paths deliver nothing now and then, where that comes back with a period.
fn write_slots(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (path, slot) in paths.iter().filter_map(|path| Some((path, path.slot?))) {
        let PathSlot { period_s, length_ms, next_s } = slot;
        writeln!(
            out,
            "  slots        {} delivers nothing for {length_ms:.0} ms every {period_s:.2} s, next in {next_s:.1} s: other paths carry \
             what is sent then",
            path.name
        )?;
    }
    Ok(())
}

/// From which addresses the paths' datagrams come, as the peer sees them.
fn write_seen(paths: &[PathStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let seen = paths.iter().filter_map(|path| Some(format!("{} as {}", path.name, path.seen_as.as_ref()?)));
    let seen: Vec<_> = seen.collect();
    if seen.is_empty() { Ok(()) } else { writeln!(out, "  seen         {}", seen.join(", ")) }
}

/// TCP connections that are ended at the sites.
fn ended(streams: &StreamsStatus) -> String {
    let StreamsStatus { open, opened, accepted, refused, reset, tx_bytes, rx_bytes, .. } = *streams;
    let (sent, received) = (bytes(tx_bytes), bytes(rx_bytes));
    let unlucky = [(refused, "refused"), (reset, "reset")].into_iter().filter(|(count, _)| *count > 0);
    let unlucky: String = unlucky.map(|(count, word)| format!(", {count} {word}")).collect();
    format!(
        "{open} open; {opened} from here and {accepted} from there so far{unlucky}; {sent} sent, {received} received"
    )
}

/// What the classes with a profile have sent, by drop precedence.
fn write_conditioners(conditioners: &[ConditionerStatus], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !conditioners.is_empty() {
        writeln!(out, "\nprofiles")?;
    }
    for ConditionerStatus { class, mode, rate_mbps: rate, mark, marked, .. } in conditioners {
        let mark = mark.as_ref().map(|mark| format!(", marked {mark}x")).unwrap_or_default();
        let counts =
            marked.iter().map(|(dp, Marked { packets, .. })| format!("{packets} {}", dp.to_uppercase()));
        let counts = counts.collect::<Vec<_>>().join(", ");
        writeln!(out, "  {class:<12} {}, {mode}{mark}: {counts}", rate_mbps(*rate))?;
    }
    Ok(())
}

/// What a class has sent, and what its queue did to it.
fn write_class(class: &ClassStatus, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "  class        {}: {} packets sent", class.name, class.tx_packets)?;
    if class.queued_packets > 0 {
        write!(out, ", {} waiting ({})", class.queued_packets, bytes(class.queued_bytes))?;
    }
    if class.marked_packets > 0 {
        write!(out, ", {} marked", class.marked_packets)?;
    }
    if class.put_out_packets > 0 {
        write!(out, ", {} of flows that build a queue put into the last class", class.put_out_packets)?;
    }
    if class.superseded_packets > 0 {
        write!(out, ", {} acknowledgements of TCP left out for later ones", class.superseded_packets)?;
    }
    if let Some(drops) = counts(&class.drops) {
        write!(out, ", dropped: {drops}")?;
    }
    if class.is_stuck {
        write!(out, "; none of the paths that it insists on works")?;
    }
    writeln!(out)
}

pub(super) fn headline(peer: &PeerStatus) -> String {
    match (peer.state, peer.heard_s) {
        (PeerState::Connected, _) => "connected".to_owned(),
        (PeerState::Connecting, _) => "connecting …".to_owned(),
        (PeerState::Down, Some(heard)) => format!("down, nothing heard for {}", age(heard)),
        (PeerState::Down, None) => "down".to_owned(),
    }
}

fn control(peer: &PeerStatus) -> String {
    let state = if peer.control.connected { "connected" } else { "not connected" };
    let since = age(peer.control.since_s);
    match &peer.control.last_error {
        Some(error) if !peer.control.connected => format!("{state} for {since}: {error}"),
        Some(_) | None => format!("{state} for {since}"),
    }
}

/// The counts that are not zero, or `None` if all are.
fn counts(counters: &BTreeMap<String, u64>) -> Option<String> {
    let counted = counters.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<String> =
        counted.map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

/// A table of paths, indented, with a header.
pub(super) fn path_table(paths: &[PathStatus]) -> String {
    if paths.is_empty() {
        return "  no paths\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER).add_rows(paths.iter().map(path_row));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if NUMBERS.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

/// Why paths carry no data, one in a line, where that can be said.
pub(super) fn path_reasons(paths: &[PathStatus]) -> String {
    let line = |path: &PathStatus| {
        let why = path.why.as_ref().or(path.relay_error.as_ref())?;
        Some(format!("  path {}: {} ({why})\n", path.name, path.state))
    };
    let added = paths.iter().filter(|path| path.added).map(|path| path.name.as_str()).collect::<Vec<_>>();
    let added = (!added.is_empty()).then(|| format!("  added while psmcd runs: {}\n", added.join(", ")));
    paths.iter().filter_map(line).chain(quotas(paths)).chain(added).collect()
}

/// What is left of quotas, one uplink in a line.
fn quotas(paths: &[PathStatus]) -> impl Iterator<Item = String> {
    let of_uplink = |path: &PathStatus| {
        let uplink = path.uplink.clone()?;
        Some((uplink, path.quota.as_ref()?.clone()))
    };
    // Its paths share it.
    let quotas: BTreeMap<_, _> = paths.iter().filter_map(of_uplink).collect();
    quotas.into_iter().map(|(uplink, quota)| {
        let (left, of) = (quota.bytes.saturating_sub(quota.used_bytes), bytes(quota.bytes));
        let until = quota.ends.as_deref().map(|ends| format!(", next period at {ends}")).unwrap_or_default();
        let what = match quota.used_up {
            true => format!("used up, {} of {of}: paths are \"{}\"", bytes(quota.used_bytes), quota.then),
            false => format!("{} left of {of}, then \"{}\"", bytes(left), quota.then),
        };
        let error = quota.error.map(|error| format!(" ({error}; kept in memory only)")).unwrap_or_default();
        format!("  quota of {uplink}: {what}{until}{error}\n")
    })
}

fn path_row(path: &PathStatus) -> [String; HEADER.len()] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        path.name.clone(),
        state(path),
        or_dash(&path.interface),
        or_dash(&path.local),
        remote(path),
        or_dash(&path.rtt_ms.map(duration_ms)),
        format!("{:.1} %", path.loss_pct),
        or_dash(&path.rate_mbps.map(rate_mbps)),
        bytes(path.tx_bytes),
        bytes(path.rx_bytes),
    ]
}

/// What a path is doing, and what it is for if that is not the usual.
fn state(path: &PathStatus) -> String {
    let direction = if path.direction == "both" { "" } else { &path.direction };
    match (path.tier.as_str(), direction) {
        ("" | "primary", "") => path.state.to_string(),
        (tier, "") => format!("{} ({tier})", path.state),
        ("" | "primary", direction) => format!("{} ({direction} only)", path.state),
        (tier, direction) => format!("{} ({tier}, {direction} only)", path.state),
    }
}

/// Where a path leads, and through which relays.
pub(super) fn remote(path: &PathStatus) -> String {
    let address = path.remote.as_deref().unwrap_or("-");
    let wrapped = if path.ip_in_ip { Some("IP-in-IP") } else { path.in_stream.then_some("TLS") };
    let ways: Vec<_> = path.relays.iter().map(String::as_str).chain(wrapped).collect();
    if ways.is_empty() { address.to_owned() } else { format!("{address} ({})", ways.join(", ")) }
}

const HEADER: [&str; 10] =
    ["PATH", "STATE", "INTERFACE", "LOCAL", "REMOTE", "RTT", "LOSS", "RATE", "SENT", "RECEIVED"];

/// The columns of numbers, which are aligned by their last digit.
const NUMBERS: std::ops::Range<usize> = 5..10;
