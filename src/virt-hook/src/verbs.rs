//! The verbs of `virt-hook`: what `virt-hook VERB` does, one module per verb or pair of verbs.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod compile;
pub(crate) mod completions_and_man;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod host_facts;
pub(crate) mod image;
pub(crate) mod inspect;
pub(crate) mod libvirt_hook;
pub(crate) mod new;
pub(crate) mod policy;
pub(crate) mod registry;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod signature;
pub(crate) mod test;
pub(crate) mod wrap;
