//! Answers for people.

use std::fmt::Write as _;

use crate::mitigation::{Moment, OpenAlert};
use crate::status::{EveStatus, RelayStatus, ServiceStatus, Status};
use crate::store::Event;

/// How things are.
pub(super) fn status(status: &Status) -> String {
    if !status.leads {
        let leader = status.leader.as_deref().unwrap_or("nobody");
        let trouble =
            status.not_kept.as_ref().map_or_else(String::new, |why| format!("cannot lead: {why}\n"));
        let suricata = status.suricata.as_ref().map_or_else(String::new, of_suricata);
        let (name, up) = (&status.name, status.uptime_s);
        return format!("coordinator {name}, up {up} s: standby, {leader} leads\n{trouble}{suricata}");
    }
    let (counts, handshakes) = (&status.counts, &status.handshakes);
    let mut text = format!(
        "coordinator {}, up {} s: {} gateways, {} clients and {} watchers are connected\n\
         took {} alerts; told clients of routes {} times, and did not {} times\n\
         refused: {} strangers, {} messages; {} handshakes failed\n",
        status.name,
        status.uptime_s,
        status.gateways,
        status.clients,
        status.watchers,
        counts.alerts,
        counts.told,
        counts.not_told,
        handshakes.unknown_key,
        counts.refused,
        handshakes.failed
            + handshakes.timed_out
            + handshakes.put_off
            + handshakes.evicted
            + handshakes.overflowed,
    );
    // Writing to a string does not fail.
    if let Some(why) = &status.not_kept {
        let _ = writeln!(text, "what happens is not kept, and may be forgotten: {why}");
    }
    text.push_str(&status.suricata.as_ref().map_or_else(String::new, of_suricata));
    if !status.blocked.is_empty() {
        let _ = writeln!(text, "blocked: {}", status.blocked.join(", "));
    }
    status.relays.iter().for_each(|relay| text.push_str(&of_relay(relay)));
    status.services.iter().for_each(|service| text.push_str(&of_service(service)));
    text
}

fn of_suricata(eve: &EveStatus) -> String {
    let EveStatus { file, lines, alerts, unreadable, rotations, error } = eve;
    let state = error.as_ref().map_or_else(
        || format!("{alerts} alerts about services in {lines} lines of {file}, rotated {rotations} times"),
        |error| format!("no alerts are taken: {error}"),
    );
    let unreadable = if *unreadable > 0 { format!("; {unreadable} lines were none") } else { String::new() };
    format!("suricata: {state}{unreadable}\n")
}

fn of_relay(relay: &RelayStatus) -> String {
    let state = match (relay.alive, relay.rtt_ms, &relay.error) {
        (true, Some(rtt), _) => format!("answers in {rtt:.1} ms"),
        (_, _, Some(error)) => format!("unusable: {error}"),
        (_, _, None) => "has not answered yet".to_owned(),
    };
    let serves = relay.serves.as_ref().map_or_else(String::new, |service| format!(", serves {service}"));
    format!("relay {} at {} {state}{serves}\n", relay.name, relay.address)
}

fn of_service(service: &ServiceStatus) -> String {
    let gateway = if service.gateway_connected { "" } else { ", its gateway is not connected" };
    let mut text = format!("service {}: {:?}{gateway}\n", service.name, service.stage);
    for open in &service.alerts {
        let left = crate::now().until(open.until).as_secs();
        let OpenAlert { source, alert, lasts_s, .. } = open;
        let (id, kind) = (&alert.id, alert.kind);
        let _ = writeln!(
            text,
            "  alert {id} of {source}: {kind:?}, expires in {left} s unless renewed, for {lasts_s} s each time"
        );
    }
    for (group, relays) in &service.relays {
        let of = |relay: &String| {
            let told = service.routes.get(group).is_some_and(|routes| routes.contains(relay));
            if told { relay.clone() } else { format!("{relay} (not told)") }
        };
        let relays: Vec<String> = relays.iter().map(of).collect();
        let _ = writeln!(text, "  {group}: {}", relays.join(", "));
    }
    if let Some(after) = service.published_after_ms {
        let _ = writeln!(text, "  published {after} ms after the alert");
    }
    for server in service.servers.iter().filter(|server| !server.current) {
        let error = server.error.as_deref().unwrap_or("has older routes");
        let _ = writeln!(text, "  name server {}: {error}", server.server);
    }
    text
}

/// What has happened.
pub(super) fn events(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        let _ = writeln!(text, "{} {} {}", time(event.time), event.service, event.text);
    }
    text
}

/// As RFC 3339 writes it, in UTC.
fn time(moment: Moment) -> String {
    let (year, month, day) = date(moment.seconds() / DAY_S);
    let second = moment.seconds() % DAY_S;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", moment.0 % 1000)
}

/// Year, month and day so many days after 1 January 1970, by counting years and months off.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

const DAY_S: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_the_calendar_has_them() {
        let days = [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (11_322, "2000-12-31")];
        for (day, date) in days {
            assert_eq!(time(Moment(day * 86_400_000 + 3_723_004)), format!("{date}T01:02:03.004Z"));
        }
    }
}
