//! `just fuzz head`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| psmc_fuzz::head(bytes));
