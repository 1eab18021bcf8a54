//! Fuzz target: `properties::diff_apply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::diff_apply(input));
