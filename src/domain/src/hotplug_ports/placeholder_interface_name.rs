//! The target names by which placeholder interfaces are recognised.

use domain_xml::Element;

const PLACEHOLDER_PREFIX: &str = "placeholder-";

/// The target name of a placeholder.
pub(crate) fn name(number: usize) -> String {
    format!("{PLACEHOLDER_PREFIX}{number}")
}

/// Whether a device is a placeholder.
pub(crate) fn is_placeholder(device: &Element) -> bool {
    device.is("interface")
        && device
            .child("target")
            .and_then(|target| target.attr("dev"))
            .is_some_and(|name| name.starts_with(PLACEHOLDER_PREFIX))
}
