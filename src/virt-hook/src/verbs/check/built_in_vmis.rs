//! The built-in VMIs on which every hook is checked.

use anyhow::anyhow;

use crate::inputs::VmiInput;
use crate::verb_failure::Failure;

/// Names and manifests of the built-in VMIs, from the smallest to those with the most devices.
const BUILT_IN_VMIS: [(&str, &str); 6] = [
    ("minimal", include_str!("built_in_vmis/minimal.yaml")),
    ("linux", include_str!("built_in_vmis/linux.yaml")),
    ("windows", include_str!("built_in_vmis/windows.yaml")),
    ("disks", include_str!("built_in_vmis/disks.yaml")),
    ("networks", include_str!("built_in_vmis/networks.yaml")),
    (
        "performance",
        include_str!("built_in_vmis/performance.yaml"),
    ),
];

/// Reads and converts the built-in VMIs, and returns them with their names.
pub(super) fn read() -> Result<Vec<(&'static str, VmiInput)>, Failure> {
    let input = |(name, yaml)| {
        let input = VmiInput::on_any_node(yaml).map_err(|failure| {
            // An error in a built-in VMI is this program's own fault.
            Failure::internal(anyhow!("the built-in VMI {name}: {failure}"))
        })?;
        Ok((name, input))
    };
    BUILT_IN_VMIS.into_iter().map(input).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_vmis_have_the_listed_names() -> Result<(), Failure> {
        let vmis = read()?;
        assert_eq!(vmis.len(), BUILT_IN_VMIS.len());
        for (name, input) in vmis {
            assert_eq!(input.invocation.name, name);
        }
        Ok(())
    }
}
