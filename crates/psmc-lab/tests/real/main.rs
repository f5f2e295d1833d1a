//! Real packets: on emulated links, in scenarios, and beside the simulation. These tests need root.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, and most functions here only serve one"
)]

mod agreement;
mod device;
mod emulator;
mod run;
