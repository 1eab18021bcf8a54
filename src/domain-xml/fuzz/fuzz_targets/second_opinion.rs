#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::second_opinion(input));
