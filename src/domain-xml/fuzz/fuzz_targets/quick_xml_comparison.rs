//! Fuzz target: `properties::quick_xml_comparison`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::quick_xml_comparison(input));
