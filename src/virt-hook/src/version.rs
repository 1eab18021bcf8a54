//! `virt-hook --version`: as text, and with `--json` as a document.

use serde::Serialize;

use crate::output::{Report, Style};

/// The version, which `make dist` completes with the commit: `0.1.0 (0123456789ab)`.
pub(crate) const VERSION: &str = match option_env!("BUILD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The versions of this program, of the WIT that it implements, and of wasmtime.
#[derive(Debug, Serialize)]
pub(crate) struct VersionReport {
    version: &'static str,
    /// The commit; `None` unless `make dist` built the program.
    commit: Option<&'static str>,
    /// The newest WIT package that this program runs.
    wit: String,
    wasmtime: &'static str,
}

impl VersionReport {
    pub(crate) fn new() -> Self {
        let (version, commit) = split(VERSION);
        Self {
            version,
            commit,
            wit: wit(),
            wasmtime: env!("WASMTIME_VERSION"),
        }
    }
}

impl Report for VersionReport {
    fn text(&self, _: Style) -> String {
        format!("virt-hook {VERSION}")
    }
}

fn split(version: &str) -> (&str, Option<&str>) {
    let parts = version.split_once(" (");
    let commit = parts.and_then(|(_, commit)| commit.strip_suffix(')'));
    (parts.map_or(version, |(version, _)| version), commit)
}

/// The package's name and the newest version of it that the host implements.
fn wit() -> String {
    let version = hook_host::wasm::package_version();
    format!("virt-hook:hooks@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_separated_from_the_version() {
        assert_eq!(split("0.1.0 (0123abc)"), ("0.1.0", Some("0123abc")));
        assert_eq!(split("0.1.0"), ("0.1.0", None));
        assert_eq!(wit(), "virt-hook:hooks@0.1.1");
    }
}
