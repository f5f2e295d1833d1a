//! Values that only a name server's file has.

use std::net::IpAddr;

use hickory_proto::rr::Name;
use psmc_routes::setting::DOMAIN;
use psmc_toml::{Kind, SocketPath, socket_path, within};

/// Whoever may fetch a zone: by the name of a key, or by an address.
#[derive(Clone, Debug)]
pub(super) enum KeyOrAddress {
    Key(Name),
    Address(IpAddr),
}

/// A [`KeyOrAddress`].
pub(super) const KEY_OR_ADDRESS: Kind<KeyOrAddress> =
    Kind::text("\"192.0.2.54\"", |text| match text.parse::<IpAddr>() {
        Ok(ip) => Ok(KeyOrAddress::Address(ip.to_canonical())),
        Err(_) => DOMAIN.read(text).map(KeyOrAddress::Key),
    });

/// Responses in a second.
pub(super) const PER_SECOND: Kind<u32> = Kind::number("1000", |text| {
    let reason = format_args!("{text} is no number of responses");
    within(text, 1..=1_000_000, reason, "write a number from 1 to 1000000")
});

/// The path of its control socket.
pub(super) const SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-dns/ns1.sock\"", |text| socket_path(text, "/run/psmc-dns/ns1.sock"));
