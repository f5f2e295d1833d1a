//! The `psmc` binary.
fn main() {}
