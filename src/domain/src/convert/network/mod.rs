//! Interfaces with a tap device or passt.

pub(crate) mod interfaces;
pub(crate) mod passt;
