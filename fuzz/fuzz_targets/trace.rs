//! `just fuzz trace`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| psmc_fuzz::trace(bytes));
