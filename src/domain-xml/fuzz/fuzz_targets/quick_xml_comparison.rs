//! Fuzz target: quick-xml accepts what is accepted here, and reads the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::quick_xml_comparison(input));
