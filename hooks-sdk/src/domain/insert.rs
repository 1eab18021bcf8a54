//! Adds elements by path. The methods of [`Element`] do the same on any element; these are part of the API of [`Domain`].

use domain_xml::{Element, PathError};

use super::Domain;
use crate::Error;

impl Domain {
    /// Adds `child` to the element at `parent`, as [`Element::insert`] does.
    pub fn insert(&mut self, parent: &str, child: Element) -> Result<&mut Element, PathError> {
        Element::insert(self, parent, child)
    }

    /// Adds an element unless the path selects one, as [`Element::insert_if_absent`] does. Returns whether it was added.
    #[track_caller]
    pub fn insert_if_absent(
        &mut self,
        path: &str,
        make: impl FnOnce() -> Element,
    ) -> Result<bool, Error> {
        Ok(Element::insert_if_absent(self, path, make)?)
    }

    /// Sets the attribute or text at the path unless it has a value, as [`Element::set_if_absent`] does. Returns whether it
    /// was set.
    pub fn set_if_absent(&mut self, path: &str, value: impl AsRef<str>) -> Result<bool, PathError> {
        Element::set_if_absent(self, path, value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_element_that_its_path_would_not_find_again_is_an_error_with_the_callers_line() {
        let mut domain = Domain::parse("<domain/>").unwrap();
        let path = "devices/disk[target/@dev='vdz']";
        let error = domain.insert_if_absent(path, || Element::new("disk"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("does not select <disk/>") && error.contains("insert.rs:"),
            "{error}"
        );
    }

    /// Code that names the methods of the type, and their errors, compiles.
    #[test]
    fn the_methods_are_those_of_the_type() {
        let mut domain = Domain::parse("<domain/>").unwrap();
        Domain::insert(&mut domain, "", Element::new("devices")).unwrap();
        let added: Result<bool, Error> =
            Domain::insert_if_absent(&mut domain, "vcpu", || Element::new("vcpu"));
        assert!(added.unwrap());
        assert!(Domain::set_if_absent(&mut domain, "vcpu/@current", "1").unwrap());
        assert_eq!(
            domain.render(),
            "<domain><devices/><vcpu current='1'/></domain>"
        );
    }
}
