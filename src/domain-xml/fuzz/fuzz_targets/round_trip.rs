//! Fuzz target: an unedited document renders byte for byte.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::round_trip(input));
