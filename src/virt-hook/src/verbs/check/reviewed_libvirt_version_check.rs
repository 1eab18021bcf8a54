//! Whether this machine's libvirt is newer than the one whose schema the dangerous set was reviewed for.

use hook_host::policy::permission::{REVIEWED_LIBVIRT, unreviewed_libvirt};

use super::check_finding::{CheckVerdict, Finding};
use super::tool_process::ToolSandbox;
use crate::verb_failure::Failure;

const CHECK_NAME: &str = "libvirt version";

/// Compares the version that `virsh` prints, which is that of the library.
pub(super) fn finding() -> Result<Finding, Failure> {
    let sandbox = ToolSandbox::new().map_err(Failure::Internal)?;
    Ok(match sandbox.run("virsh", vec!["--version".into()]) {
        Ok(output) => finding_for_version(output.stdout.trim()),
        Err(error) => Finding::new(CHECK_NAME, CheckVerdict::NotChecked, error.to_string()),
    })
}

fn finding_for_version(version: &str) -> Finding {
    let Some(packed) = packed_version(version) else {
        let message = format!("virsh reports an unknown version: {version:?}");
        return Finding::new(CHECK_NAME, CheckVerdict::NotChecked, message);
    };
    match unreviewed_libvirt(packed) {
        Some(warning) => Finding::new(CHECK_NAME, CheckVerdict::Doubtful, warning),
        None => {
            let (major, minor, _) = REVIEWED_LIBVIRT;
            let message = format!(
                "the dangerous set, reviewed for {major}.{minor}, knows all elements of {version}"
            );
            Finding::new(CHECK_NAME, CheckVerdict::Passed, message)
        }
    }
}

/// As libvirt packs a version: 11003000 for 11.3.0.
fn packed_version(version: &str) -> Option<u64> {
    let mut parts = version.split('.').map(str::parse::<u64>);
    let mut part = || parts.next()?.ok().filter(|part| *part < 1000);
    let (major, minor, patch) = (part()?, part()?, part()?);
    Some((major * 1000 + minor) * 1000 + patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_libvirt_is_doubtful() {
        let (major, minor, patch) = REVIEWED_LIBVIRT;
        let text = |version: &str| finding_for_version(version).text(Default::default());
        for version in [format!("{major}.{minor}.{patch}"), "9.0.0".to_owned()] {
            assert!(text(&version).starts_with("ok"), "{}", text(&version));
        }
        for version in [
            format!("{major}.{}.0", minor + 1),
            format!("{}.0.0", major + 1),
        ] {
            let version_text = text(&version);
            assert!(
                version_text.starts_with("doubtful") && version_text.contains("is newer than"),
                "{version_text}"
            );
        }
        for version in ["", "11", "11.x.0", "1.2.3000", "99999999999999999999.0.0"] {
            assert!(
                text(version).starts_with("not checked"),
                "{}",
                text(version)
            );
        }
    }
}
