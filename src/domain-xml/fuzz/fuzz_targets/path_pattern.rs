//! Fuzz target: `properties::path_pattern`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::path_pattern(input));
