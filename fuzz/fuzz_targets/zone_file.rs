//! `just fuzz zone_file`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| psmc_fuzz::zone_file(bytes));
