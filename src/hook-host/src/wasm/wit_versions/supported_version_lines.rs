//! The ranges of WIT versions ("lines", such as 0.1) that this host supports.

use semver::Version;
use wasmtime::component::{Component, Linker};

use super::interface_name::InterfaceName;
use super::optional_imports::{self, OptionalInterface};
use super::{BindingsByAccess, HookBinding, v0_1};
use crate::wasm::store_state::StoreState;

/// A semver range of versions, which one adapter serves: below 1.0 it is `0.MINOR`. A second line is a second variant; the
/// compiler then names what it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    V0_1,
}

impl Line {
    /// All lines, the newest last.
    pub(super) const ALL: [Line; 1] = [Line::V0_1];

    /// The newest line, which new modules are built for.
    pub(super) const NEWEST: Line = Line::ALL[Line::ALL.len() - 1];

    /// The line that an interface belongs to.
    pub(super) fn of(name: &InterfaceName<'_>) -> Option<Line> {
        let mut lines = Line::ALL.into_iter();
        lines.find(|line| name.is_in_range_of(&line.newest_version()))
    }

    /// The first version of the line; every module has its interfaces.
    pub(super) fn first_version(self) -> &'static str {
        match self {
            Line::V0_1 => v0_1::FIRST_VERSION,
        }
    }

    /// The newest version of the line that this host implements.
    pub(super) fn newest_version(self) -> Version {
        let (text, fallback) = match self {
            Line::V0_1 => (v0_1::NEWEST_VERSION, Version::new(0, 1, 0)),
        };
        // A test checks that each constant can be parsed.
        Version::parse(text).unwrap_or(fallback)
    }

    /// Whether the host has an interface, in a version that is compatible with the imported one.
    pub(super) fn has_import(self, imported: &InterfaceName<'_>) -> bool {
        let (first_version, optional) = match self {
            Line::V0_1 => (v0_1::IMPORTS, self.optional_imports()),
        };
        let is_of_first_version = first_version.contains(&imported.interface)
            && imported.is_in_range_of(&self.newest_version());
        is_of_first_version || optional_imports::is_supported(optional, imported)
    }

    fn optional_imports(self) -> &'static [OptionalInterface] {
        match self {
            Line::V0_1 => optional_imports::INTERFACES,
        }
    }

    /// Adds the interfaces that modules of the line may import.
    pub(super) fn add_to_linker(self, linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
        match self {
            Line::V0_1 => v0_1::add_to_linker(linker)?,
        }
        let mut interfaces = self.optional_imports().iter();
        interfaces.try_for_each(|interface| (interface.add_to_linker)(linker))
    }

    /// Links a component of the line, with each of the linkers.
    pub(super) fn bind(
        self,
        linkers: &BindingsByAccess<Linker<StoreState>>,
        component: &Component,
    ) -> wasmtime::Result<HookBinding> {
        match self {
            Line::V0_1 => linkers
                .try_map(|linker| v0_1::Binding::new(linker, component))
                .map(HookBinding::V0_1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(version: &str) -> Option<Line> {
        let name = format!("virt-hook:hooks/handler@{version}");
        Line::of(&InterfaceName::parse(&name).unwrap())
    }

    #[test]
    fn a_version_belongs_to_the_line_of_its_semver_range() {
        for version in ["0.1.0", "0.1.1", "0.1.99"] {
            assert_eq!(line(version), Some(Line::V0_1), "{version}");
        }
        for version in ["0.2.0", "1.0.0", "1.1.0", "0.0.1", "0.1.2-rc.1"] {
            assert_eq!(line(version), None, "{version}");
        }
    }

    #[test]
    fn package_version_is_the_newest_version_of_the_newest_line() {
        let newest = Line::NEWEST.newest_version().to_string();
        assert_eq!(newest, crate::wit_package::NEWEST_VERSION);
    }

    #[test]
    fn the_versions_of_each_line_are_of_this_line() {
        for of in Line::ALL {
            assert_eq!(line(of.first_version()), Some(of));
            let newest = match of {
                Line::V0_1 => v0_1::NEWEST_VERSION,
            };
            assert_eq!(line(newest), Some(of));
            assert_eq!(of.newest_version().to_string(), newest);
        }
    }
}
