//! Worlds of hosts, sites and links, in virtual time.
//!
//! One program: each of several would be checked and linked by itself, with a world of its own.

mod alone;
mod asymmetric;
mod bbr;
mod between;
mod floods;
mod further;
mod heeding;
mod hosts;
mod profiler;
mod returning;
mod rivals;
mod router;
mod scenarios;
mod shared;
mod sites;
mod split;
mod streams;
mod tiers;
mod users;
mod world;
