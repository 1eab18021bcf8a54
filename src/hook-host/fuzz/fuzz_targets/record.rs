//! Fuzz target of the parser of record files.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hook_host_fuzz::record(input));
