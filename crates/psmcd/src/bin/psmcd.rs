//! The `psmcd` binary.
fn main() {}
