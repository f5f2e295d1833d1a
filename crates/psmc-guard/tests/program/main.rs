//! The real guard in network namespaces: real floods, a coordinator and a psmcd that only play their parts.
//!
//! Needs root, and `tc` and `nft`.

mod coordinator;
mod defence;
mod flood;
mod gateway;
mod world;
