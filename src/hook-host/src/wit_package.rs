//! The name and the newest version of the WIT package of hooks. They are not below `wasm`, because `module_description`
//! names them, and `wasm` uses `module_description`.

/// The name of the package.
pub(crate) const PACKAGE: &str = "virt-hook:hooks";
/// The newest version of the package that this host implements.
pub(crate) const NEWEST_VERSION: &str = "0.1.1";
