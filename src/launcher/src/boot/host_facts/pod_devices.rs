//! Devices that device plugins assigned to the pod, from their environment variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Environment variables of device plugins begin with one of these.
const PLUGINS: [&str; 3] = ["PCI_RESOURCE_", "MDEV_PCI_RESOURCE_", "USB_RESOURCE_"];

/// The addresses that device plugins handed over.
pub(super) fn plugins(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    environment
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .filter(|(name, _)| PLUGINS.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plugins_in(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        plugins(
            variables
                .iter()
                .map(|(name, text)| (name.into(), text.into())),
        )
    }

    #[test]
    fn only_variables_of_device_plugins_are_read() {
        let found = plugins_in(&[
            ("PATH", "/bin"),
            ("USB_RESOURCE_X", "1:2"),
            ("PCI_RESOURCE_Y", "a"),
        ]);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["PCI_RESOURCE_Y", "USB_RESOURCE_X"]);
    }
}
