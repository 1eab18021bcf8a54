//! The environment variables in which device plugins list the devices of the pod.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The prefixes of the variables of device plugins.
const PREFIXES: [&str; 3] = ["PCI_RESOURCE_", "MDEV_PCI_RESOURCE_", "USB_RESOURCE_"];

/// The raw text of each variable of a device plugin (addresses separated by commas), by its name.
pub(super) fn filter_by_prefix(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    environment
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        filter_by_prefix(
            variables
                .iter()
                .map(|(name, text)| (name.into(), text.into())),
        )
    }

    #[test]
    fn only_variables_of_device_plugins_remain() {
        let plugins = filtered(&[
            ("PATH", "/bin"),
            ("USB_RESOURCE_X", "1:2"),
            ("PCI_RESOURCE_Y", "a"),
        ]);
        let names: Vec<_> = plugins.keys().map(String::as_str).collect();
        assert_eq!(names, ["PCI_RESOURCE_Y", "USB_RESOURCE_X"]);
    }
}
