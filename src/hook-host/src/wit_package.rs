//! The WIT package of hooks, as errors name it.

/// The name of the package.
pub(crate) const PACKAGE: &str = "virt-hook:hooks";
/// The newest version of the package that this host implements.
pub(crate) const NEWEST_VERSION: &str = "0.1.1";
