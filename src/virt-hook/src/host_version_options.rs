//! `--libvirt-version` and `--kubevirt-version`: versions of the target cluster, which virt-hook cannot query.

use clap::Args;
use hook_host::Version;
use hook_host::policy::{HostVersions, UnknownVersion};

/// Versions of the target cluster.
#[derive(Debug, Default, Args)]
pub(crate) struct HostVersionOptions {
    /// The version of libvirt in the launcher's image, for `requires` in hook.yaml
    #[arg(long, value_name = "VERSION", value_parser = parse)]
    libvirt_version: Option<Version>,
    /// The version of KubeVirt, for `requires` in hook.yaml
    #[arg(long, value_name = "VERSION", value_parser = parse)]
    kubevirt_version: Option<Version>,
}

impl HostVersionOptions {
    pub(crate) fn to_host_versions(&self, unknown: UnknownVersion) -> HostVersions {
        HostVersions {
            libvirt: self.libvirt_version.clone(),
            kubevirt: self.kubevirt_version.clone(),
            unknown,
        }
    }
}

/// `11.3.0`, `v1.9.0` or `11.3`.
fn parse(text: &str) -> Result<Version, String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let padded = format!("{bare}.0");
    let parsed = Version::parse(bare).or_else(|error| Version::parse(&padded).map_err(|_| error));
    parsed.map_err(|error| format!("it is not a version such as 11.3.0: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (text, version) in [
            ("11.3.0", "11.3.0"),
            ("v1.9.0", "1.9.0"),
            ("11.3", "11.3.0"),
            ("v1.10.0-rc.1", "1.10.0-rc.1"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), version);
        }
        for wrong in ["", "v", "11", "new", "11.x.0", "1.2.3.4"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
