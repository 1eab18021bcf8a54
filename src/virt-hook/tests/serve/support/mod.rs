//! Parsers for tests of `virt-hook serve`.

pub(crate) mod prometheus_parser;
