//! The lab's tool.

fn main() {}
