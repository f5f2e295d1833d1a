//! Values that only a guard's file has.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{Kind, Port, SocketPath, ValueError, bits_per_second, parse_net, socket_path, within};

/// A name of DNS, in lower case and without the dot at the end.
pub(super) const SERVICE_NAME: Kind<String> = Kind::text("\"www.example.com\"", |text| {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // RFC 1035 §2.3.4.
    if name.len() <= 253 && name.split('.').all(is_label) {
        return Ok(name);
    }
    let remedy = "write the name by which the service is reached, such as \"www.example.com\"";
    Err(ValueError::new(format!("{text:?} is no name of DNS"), remedy))
});

/// An address, or a prefix of addresses.
pub(super) const TARGET: Kind<IpNet> = Kind::text("\"203.0.113.10\"", |text| {
    let net = text.parse::<IpAddr>().map(IpNet::from);
    net.or_else(|_| parse_net(text)).map(|net| net.trunc())
});

/// A port of a service.
pub(super) const SERVICE_PORT: Kind<u16> = Kind::number("443", |text| text.parse::<Port>().map(Port::get));

/// An address and a port.
pub(super) const ENDPOINT: Kind<SocketAddr> = Kind::text("\"198.51.100.9:5117\"", |text| {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    let remedy = "write address and port, such as \"198.51.100.9:5117\": names may not resolve in an attack";
    address.ok_or_else(|| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// An address of this machine.
pub(super) const LOCAL_ADDRESS: Kind<IpAddr> = Kind::text("\"192.0.2.7\"", |text| {
    let remedy = "write an address of this machine, such as \"192.0.2.7\", without a length";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// The path of the file in which the state is kept.
pub(super) const STATE_FILE: Kind<PathBuf> = Kind::text("\"/var/lib/psmc-guard/hq.json\"", |text| {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        let remedy = "name a file, such as \"/var/lib/psmc-guard/hq.json\"";
        return Err(ValueError::new(format!("{text:?} is not the path of a file"), remedy));
    }
    Ok(text.into())
});

/// A time in seconds.
pub(super) const SECONDS: Kind<Duration> = Kind::number("60", |text| {
    let remedy = "write seconds, from 1 to 86400, which is a day";
    within(text, 1..=86_400, format_args!("{text} s is no time for this"), remedy).map(Duration::from_secs)
});

/// How many times what is usual is too much.
pub(super) const FACTOR: Kind<f64> = Kind::decimal("3", |text| {
    let remedy = "write a number from 1.2 to 1000; 3 lets a service have twice its visitors";
    within(text, 1.2..=1000.0, format_args!("{text} is no factor for this"), remedy)
});

/// So many per second.
pub(super) const PER_SECOND: Kind<f64> = Kind::decimal("20000", |text| {
    let remedy = "write a number from 1 on, such as 20000";
    within(text, 1.0..=1e12, format_args!("{text} per second is no limit"), remedy)
});

/// So many bits per second.
pub(super) const BITS: Kind<f64> = Kind::text("\"80mbit\"", |text| {
    let bits = bits_per_second(text)?;
    if bits == 0 {
        return Err(ValueError::new("every bit would be an attack", "write a rate, such as \"80mbit\""));
    }
    #[expect(clippy::cast_precision_loss, reason = "nobody measures rates to sixteen digits")]
    Ok(bits as f64)
});

/// A share of packets: neither none nor all of them.
pub(super) const SHARE: Kind<f64> = Kind::decimal("0.2", |text| {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share < 1.0);
    let remedy = "write a number between 0 and 1, such as 0.2";
    share.ok_or_else(|| ValueError::new(format!("{text} is no share of packets"), remedy))
});

/// The path of its control socket.
pub(super) const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-guard/hq.sock\"", |text| socket_path(text, "/run/psmc-guard/hq.sock"));
