#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_fuzz::domain_json(input));
