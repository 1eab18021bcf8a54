//! Fuzz target: libvirt's XML becomes JSON that virt-handler decodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| domain_fuzz::domain_xml_to_json(input));
