//! The built-in VMIs on which every hook is checked.

use anyhow::anyhow;

use crate::inputs::VmiInput;
use crate::verb_failure::Failure;

/// A built-in VMI.
struct BuiltInVmi {
    name: &'static str,
    yaml: &'static str,
    /// The architectures of nodes that can run it.
    architectures: &'static [&'static str],
}

const AMD64: &str = "amd64";
const ARM64: &str = "arm64";
const S390X: &str = "s390x";
const ANY: &[&str] = &[AMD64, ARM64, S390X];

/// The architecture of the VMIs that a hook is checked on unless the command line names another.
pub(super) const DEFAULT_ARCHITECTURE: &str = AMD64;

/// From the smallest to those with the most devices.
const BUILT_IN_VMIS: [BuiltInVmi; 8] = [
    BuiltInVmi {
        name: "minimal",
        yaml: include_str!("built_in_vmis/minimal.yaml"),
        architectures: ANY,
    },
    BuiltInVmi {
        name: "linux",
        yaml: include_str!("built_in_vmis/linux.yaml"),
        architectures: ANY,
    },
    BuiltInVmi {
        name: "windows",
        yaml: include_str!("built_in_vmis/windows.yaml"),
        architectures: &[AMD64],
    },
    BuiltInVmi {
        name: "disks",
        yaml: include_str!("built_in_vmis/disks.yaml"),
        architectures: &[AMD64],
    },
    BuiltInVmi {
        name: "networks",
        yaml: include_str!("built_in_vmis/networks.yaml"),
        architectures: ANY,
    },
    BuiltInVmi {
        name: "performance",
        yaml: include_str!("built_in_vmis/performance.yaml"),
        architectures: &[AMD64],
    },
    BuiltInVmi {
        name: "arm64",
        yaml: include_str!("built_in_vmis/arm64.yaml"),
        architectures: &[ARM64],
    },
    BuiltInVmi {
        name: "s390x",
        yaml: include_str!("built_in_vmis/s390x.yaml"),
        architectures: &[S390X],
    },
];

/// Reads and converts the built-in VMIs for nodes of an architecture, and returns them with their names.
pub(super) fn read(architecture: &str) -> Result<Vec<(&'static str, VmiInput)>, Failure> {
    let of_architecture = BUILT_IN_VMIS
        .into_iter()
        .filter(|vmi| vmi.architectures.contains(&architecture));
    of_architecture
        .map(|vmi| {
            let input = VmiInput::on_node_of(architecture, vmi.yaml).map_err(|failure| {
                // An error in a built-in VMI is this program's own fault.
                Failure::internal(anyhow!("the built-in VMI {}: {failure}", vmi.name))
            })?;
            Ok((vmi.name, input))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_has_built_in_vmis_with_the_listed_names() -> Result<(), Failure> {
        let libvirt_names = [(AMD64, "x86_64"), (ARM64, "aarch64"), (S390X, "s390x")];
        for ((architecture, libvirt_name), count) in libvirt_names.into_iter().zip([6, 4, 4]) {
            let vmis = read(architecture)?;
            assert_eq!(vmis.len(), count, "{architecture}");
            for (name, input) in vmis {
                assert_eq!(input.invocation.name, name);
                let arch = format!("arch=\"{libvirt_name}\"");
                assert!(input.xml.contains(&arch), "{name}: {}", input.xml);
            }
        }
        Ok(())
    }
}
