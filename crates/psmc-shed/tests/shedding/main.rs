//! `psmc-shed`, the real program: on a server, and on two routers in front of it, in network namespaces; beside real BGP daemons, a
//! relay and two sites.
//!
//! Needs root, iproute2, nftables, GoBGP (`gobgpd`, `gobgp`), ExaBGP, BIRD and HAProxy, and fails without them.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod bgp;
mod cost;
mod crowds;
mod documentation;
mod floods;
mod relays;
mod reload;
mod sites;
mod sources;
mod strangers;
mod world;
