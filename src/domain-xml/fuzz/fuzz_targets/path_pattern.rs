//! Fuzz target: a path pattern is parsed and matched without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::path_pattern(input));
