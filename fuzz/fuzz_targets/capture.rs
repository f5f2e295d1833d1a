//! `just fuzz capture`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| psmc_fuzz::capture(bytes));
