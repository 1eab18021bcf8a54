//! The built-in VMIs on which every hook is checked.

use anyhow::anyhow;

use super::checked_vmis::CheckedVmi;
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

/// Reads and converts the built-in VMIs.
pub(super) fn read() -> Result<Vec<CheckedVmi>, Failure> {
    let mut vmis = Vec::new();
    for (name, yaml) in BUILT_IN_VMIS {
        let input = VmiInput::on_any_node(yaml).map_err(|failure| {
            // An error in a built-in VMI is this program's own fault.
            Failure::internal(anyhow!("the built-in VMI {name}: {failure}"))
        })?;
        vmis.push(CheckedVmi {
            name: name.to_owned(),
            input,
            is_built_in: true,
            expects_error: false,
        });
    }
    Ok(vmis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_vmis_have_the_listed_names() -> Result<(), Failure> {
        let vmis = read()?;
        assert_eq!(vmis.len(), BUILT_IN_VMIS.len());
        for CheckedVmi { name, input, .. } in vmis {
            assert_eq!(input.invocation.name, name);
        }
        Ok(())
    }
}
