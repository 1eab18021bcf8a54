//! Which version of KubeVirt the launcher stands in for: the one whose image it was put into.

use std::fmt;
use std::path::Path;

use domain::kubevirt_version::{KubeVirtVersion, Support, UnsupportedRelease};

use super::{ConfigError, DEFAULTS_DIRECTORY, Flags};

/// The file in which KubeVirt's images name their release.
pub(super) const VERSION_FILE: &str = "/.version";

/// Where v1.8's virt-controller looks for firmware.
const OVMF_PATH_OF_V1_8: &str = "/usr/share/OVMF";

/// The version of KubeVirt that the launcher stands in for, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVirtRelease {
    /// The version whose behaviour the launcher has.
    pub version: KubeVirtVersion,
    /// Whether the cluster's release is newer than every version whose behaviour is known.
    pub is_newer: bool,
    /// Whether nothing names the release.
    is_assumed: bool,
    reason: String,
}

impl KubeVirtRelease {
    /// The release for a launcher in this image that virt-controller gives no flags: for `--version --json`.
    ///
    /// # Errors
    /// As those of [`Config::read`](super::Config::read).
    pub fn of_image() -> Result<KubeVirtRelease, ConfigError> {
        let flags = Flags::read(&["virt-launcher".into()])?;
        let flags = flags.with_defaults_from(Path::new(DEFAULTS_DIRECTORY));
        let setting = flags.kubevirt_version.as_deref();
        Ok(Self::find(setting, Path::new(VERSION_FILE))?)
    }

    /// The release that `setting` or else the image's file names.
    ///
    /// # Errors
    /// [`UnsupportedRelease`] if the release is too old, or the setting is not a release.
    pub(super) fn find(
        setting: Option<&str>,
        file: &Path,
    ) -> Result<KubeVirtRelease, UnsupportedRelease> {
        let found = std::fs::read_to_string(file).ok();
        let found = found
            .as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty());
        let (release, place) = match (setting, found) {
            (Some(setting), _) => (setting, "--kubevirt-version".to_owned()),
            (None, Some(found)) => (found, file.display().to_string()),
            (None, None) => {
                return Ok(Self::assumed(format!("{} is missing", file.display())));
            }
        };
        match KubeVirtVersion::supporting(release) {
            Ok(Support { version, is_newer }) => Ok(Self {
                version,
                is_newer,
                is_assumed: false,
                reason: format!("{place} says {release}"),
            }),
            // Builds without a release have other texts there.
            Err(UnsupportedRelease::NotARelease(text)) if setting.is_none() => {
                Ok(Self::assumed(format!("{place} says {text:?}")))
            }
            Err(error) => Err(error),
        }
    }

    /// Why the version may not be the cluster's, if it may not.
    pub fn warning(&self) -> Option<String> {
        let Self {
            version, reason, ..
        } = self;
        if self.is_newer {
            return Some(format!(
                "{reason}, which is newer than the versions of KubeVirt that this launcher knows: it behaves as that of \
                 {version}, and skips flags that it does not know"
            ));
        }
        self.is_assumed.then(|| {
            format!(
                "the cluster's version of KubeVirt is not known: {reason}. The launcher behaves as that of {version}; \
                 /etc/virt-launcher/kubevirt-version can name another"
            )
        })
    }

    /// Why the version may not be that of the cluster whose virt-controller gives these flags.
    pub(super) fn warnings(&self, flags: &Flags) -> Vec<String> {
        Vec::from_iter(self.warning().into_iter().chain(self.contradiction(flags)))
    }

    /// What the command line says of another version, if anything: an image for one version in a cluster of another.
    fn contradiction(&self, flags: &Flags) -> Option<String> {
        let is_v1_8 = flags.ovmf_path == Path::new(OVMF_PATH_OF_V1_8);
        let has_hook_flag = flags.libvirt_hook_server_and_client;
        let (sign, fits) = match self.version {
            KubeVirtVersion::V1_8 => ("--ovmf-path", is_v1_8),
            KubeVirtVersion::V1_9 => ("--ovmf-path", !is_v1_8),
            KubeVirtVersion::V1_10 if has_hook_flag => ("--libvirt-hook-server-and-client", false),
            KubeVirtVersion::V1_10 => ("--ovmf-path", !is_v1_8),
        };
        (!fits && !self.is_assumed).then(|| {
            format!(
                "the launcher stands in for {self}, but {sign} is not as that version's virt-controller sets it: is this \
                 the image for another version?"
            )
        })
    }

    fn assumed(reason: String) -> Self {
        Self {
            version: KubeVirtVersion::default(),
            is_newer: false,
            is_assumed: true,
            reason,
        }
    }
}

impl fmt::Display for KubeVirtRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KubeVirt {} ({})", self.version, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(
        setting: Option<&str>,
        file: Option<&str>,
    ) -> (Result<KubeVirtRelease, String>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".version");
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        let found = KubeVirtRelease::find(setting, &path);
        let warning = found.as_ref().ok().and_then(KubeVirtRelease::warning);
        (
            found.map_err(|error| error.to_string()),
            Vec::from_iter(warning),
        )
    }

    #[test]
    fn image_names_the_release_and_a_setting_comes_first() {
        for (setting, file, expected) in [
            (None, "v1.9.0\n", KubeVirtVersion::V1_9),
            (None, "v1.8.4", KubeVirtVersion::V1_8),
            (None, "v1.10.0-alpha.0-31-g0123456", KubeVirtVersion::V1_10),
            (Some("1.8"), "v1.9.0", KubeVirtVersion::V1_8),
            (Some("v1.9"), "{gitVersion}", KubeVirtVersion::V1_9),
        ] {
            let (release, warnings) = find(setting, Some(file));
            let release = release.unwrap();
            assert_eq!(
                (release.version, release.is_newer),
                (expected, false),
                "{file}"
            );
            assert_eq!(warnings, [""; 0], "{file}");
        }
    }

    #[test]
    fn unknown_and_newer_releases_are_warned_of() {
        for file in [
            None,
            Some(""),
            Some("{gitVersion}"),
            Some("latest"),
            Some("v1"),
        ] {
            let (release, warnings) = find(None, file);
            assert_eq!(release.unwrap().version, KubeVirtVersion::V1_9, "{file:?}");
            assert!(warnings[0].contains("kubevirt-version"), "{warnings:?}");
        }
        let (release, warnings) = find(None, Some("v1.12.3"));
        let release = release.unwrap();
        assert_eq!(
            (release.version, release.is_newer),
            (KubeVirtVersion::V1_10, true)
        );
        assert!(
            warnings[0].contains("v1.12.3") && warnings[0].contains("v1.10"),
            "{warnings:?}"
        );
    }

    #[test]
    fn old_releases_and_settings_that_are_none_are_refused_by_name() {
        for (setting, file, expected) in [
            (None, "v1.7.4", "v1.7.4"),
            (None, "v0.59.0", "v0.59.0"),
            (Some("1.6"), "v1.9.0", "1.6"),
            (Some("newest"), "v1.9.0", "newest"),
        ] {
            let error = find(setting, Some(file)).0.unwrap_err();
            assert!(
                error.contains(expected) && error.contains("v1.8"),
                "{error}"
            );
        }
    }
}
