//! Fuzz target of the parsers of `hook.yaml` and the operator's policy.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hook_host_fuzz::policy_file(input));
