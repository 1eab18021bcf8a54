//! Parses names of WIT interfaces with versions, and compares the versions by semver range.

use semver::Version;

pub(super) use crate::wit_package::PACKAGE;

/// The name that [`PACKAGE`] had before its first release.
pub(super) const FORMER_PACKAGE: &str = "kubevirt:hooks";

/// An interface of [`PACKAGE`], such as `virt-hook:hooks/handler@0.1.0`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InterfaceName<'a> {
    pub(super) interface: &'a str,
    pub(super) version: Version,
}

impl<'a> InterfaceName<'a> {
    /// Parses the name of an interface of [`PACKAGE`]; `None` for an interface of another package.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        Self::of_package(name, PACKAGE)
    }

    /// Like [`InterfaceName::parse`], for an interface of `package`.
    pub(super) fn of_package(name: &'a str, package: &str) -> Option<Self> {
        let (path, version) = name.split_once('@')?;
        let interface = path.strip_prefix(package)?.strip_prefix('/')?;
        let version = Version::parse(version).ok()?;
        Some(Self { interface, version })
    }

    /// Whether the version is in the same semver range as `other`, a release: equal up to the first number that is not
    /// zero. As for wasmtime, a pre-release of `self` is in no range.
    pub(super) fn is_in_range_of(&self, other: &Version) -> bool {
        let own = &self.version;
        if !own.pre.is_empty() {
            return false;
        }
        if own.major > 0 || other.major > 0 {
            return own.major == other.major;
        }
        if own.minor > 0 || other.minor > 0 {
            return own.minor == other.minor;
        }
        own.patch == other.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versioned_interfaces_of_the_package_are_parsed() {
        let name = InterfaceName::parse("virt-hook:hooks/handler@0.1.2").unwrap();
        assert_eq!(
            (name.interface, name.version),
            ("handler", Version::new(0, 1, 2))
        );
        for other in [
            "wasi:cli/run@0.2.0",
            "kubevirt:hooks/handler@0.1.0",
            "virt-hook:hooksmith/handler@0.1.0",
            "virt-hook:hooks/handler",
            "virt-hook:hooks/handler@x",
            "run",
        ] {
            assert_eq!(InterfaceName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_range_ends_at_the_first_number_that_is_not_zero() {
        let is_of = |name: &str, other: &str| {
            let name = format!("virt-hook:hooks/host@{name}");
            let other = Version::parse(other).unwrap();
            InterfaceName::parse(&name).unwrap().is_in_range_of(&other)
        };
        assert!(is_of("0.1.0", "0.1.0") && is_of("0.1.7", "0.1.0"));
        assert!(!is_of("0.2.0", "0.1.0") && !is_of("1.1.0", "0.1.0"));
        assert!(is_of("1.4.0", "1.0.0") && !is_of("0.0.1", "0.0.2"));
        assert!(!is_of("0.1.2-rc.1", "0.1.0"));
    }
}
