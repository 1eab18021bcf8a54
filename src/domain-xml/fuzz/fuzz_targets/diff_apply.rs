//! Fuzz target: what `diff` finds and `apply` carries out makes one document the other.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_xml_fuzz::diff_apply(input));
