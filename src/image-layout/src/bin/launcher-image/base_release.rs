//! Which version of KubeVirt the launcher of the image will stand in for: what the base's `/.version` or the builder says.
//!
//! The launcher decides the same at its start. Said here, a base that is too old costs no built image and no VM.

use anyhow::{Result, bail};
use image_layout::{Image, ImageError};
use kubevirt_api::kubevirt_version::{KubeVirtVersion, Support, UnsupportedRelease};

/// The file in which KubeVirt's images name their release, in the image's root directory.
const VERSION_FILE: &str = ".version";
/// The maximum size of that file in bytes.
const MAX_VERSION_BYTES: u64 = 4096;
/// How the builder names the release.
const SETTING: &str = "--kubevirt-version (KUBEVIRT_VERSION of make)";

/// The lines about the version, for the builder. `setting` is `--kubevirt-version`, which comes before the base's file.
pub(crate) fn describe(base: Option<&Image>, setting: Option<&str>) -> Result<Vec<String>> {
    let set = setting.map(KubeVirtVersion::supporting).transpose();
    let set = match set {
        Ok(set) => set,
        Err(error) => bail!("--kubevirt-version: {error}"),
    };
    let mut lines = Vec::new();
    if let (Some(setting), Some(support)) = (setting, set) {
        lines.push(described("--kubevirt-version", setting, support));
    }
    let Some(base) = base else {
        return Ok(lines);
    };
    match (found(base), set) {
        (Ok(None), None) => lines.push(format!(
            "warning: the base has no /{VERSION_FILE}, so that the launcher will behave as that of {}: name the base's \
             release with {SETTING}",
            KubeVirtVersion::default()
        )),
        (Err(error), None) => {
            bail!("the base's release cannot be read; name it with {SETTING}: {error}")
        }
        (Ok(None) | Err(_), Some(_)) => {}
        (Ok(Some(text)), set) => lines.extend(line_about_base(&text, set)?),
    }
    Ok(lines)
}

/// The text of the base's file; `None` if the file is missing or empty.
fn found(base: &Image) -> Result<Option<String>, ImageError> {
    let content = base.root_file_of_base(VERSION_FILE, MAX_VERSION_BYTES)?;
    let text = content.map(|content| String::from_utf8_lossy(&content).trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}

/// The line about what the base's file says, and how that fits the version that the builder has set.
fn line_about_base(text: &str, set: Option<Support>) -> Result<Option<String>> {
    let place = format!("the base's /{VERSION_FILE}");
    let is_set = set.is_some();
    match KubeVirtVersion::supporting(text) {
        Ok(support) if set.is_some_and(|set| set.version == support.version) => Ok(None),
        Ok(support) if !is_set => Ok(Some(described(&place, text, support))),
        Err(error @ UnsupportedRelease::TooOld(_)) if !is_set => {
            bail!("the base is not supported: {error}")
        }
        Err(UnsupportedRelease::NotARelease(text)) if !is_set => Ok(Some(format!(
            "warning: {place} says {text:?}, which is no release of KubeVirt, so that the launcher will behave as that of \
             {}: name the base's release with {SETTING}",
            KubeVirtVersion::default()
        ))),
        Ok(_) | Err(UnsupportedRelease::TooOld(_)) => Ok(Some(format!(
            "warning: {place} says {text:?}, and --kubevirt-version another version: is this the right base?"
        ))),
        Err(UnsupportedRelease::NotARelease(_)) => Ok(None),
    }
}

fn described(place: &str, release: &str, support: Support) -> String {
    let Support { version, is_newer } = support;
    match is_newer {
        true => format!(
            "warning: {place} says {release:?}, which is newer than the versions of KubeVirt that this launcher knows: it \
             will behave as that of {version}"
        ),
        false => format!("{place} says {release}: the launcher will behave as that of {version}"),
    }
}
