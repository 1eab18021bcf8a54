//! Fuzz target of the parser of module descriptions.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hook_host_fuzz::description(input));
