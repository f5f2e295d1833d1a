//! `just fuzz datagram`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| psmc_fuzz::datagram(bytes));
