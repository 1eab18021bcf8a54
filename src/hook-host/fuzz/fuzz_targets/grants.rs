//! Fuzz target of the check of a domain change against a grant.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hook_host_fuzz::grants(input));
