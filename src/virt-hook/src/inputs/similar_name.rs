//! The known name that a misspelt one resembles.

use std::fs;
use std::path::Path;

/// From this similarity on, of 1, a known name is suggested.
const SIMILAR: f64 = 0.8;

/// The most similar of the known names, if it is similar enough.
pub(super) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let rated = known.map(|known| {
        let rating = strsim::jaro_winkler(&lower, &known.to_lowercase());
        (rating, known)
    });
    let best = rated.max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(one.1)));
    best.filter(|(rating, _)| *rating >= SIMILAR)
        .map(|(_, known)| known)
}

/// What to add to the error about a path that does not exist: a similar name beside it, of the same kind.
pub(crate) fn hint_of_missing(path: &Path, is_dir: bool) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let parent = path.parent()?;
    let beside = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let entries = fs::read_dir(beside).ok()?.flatten();
    let of_kind = entries.map(|entry| entry.path()).filter(|other| {
        other.is_dir() == is_dir && (is_dir || other.extension() == path.extension())
    });
    let names = of_kind.filter_map(|other| Some(other.file_name()?.to_str()?.to_owned()));
    let names: Vec<String> = names.collect();
    let similar = similar(name, names.iter().map(String::as_str))?;
    Some(format!("is it {}?", parent.join(similar).display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_missing_file_has_the_name_of_a_similar_one() {
        let temp_dir = tempfile::tempdir().unwrap();
        let at = |name: &str| temp_dir.path().join(name);
        for name in ["usb_device.wasm", "usb-device.yaml", "smbios.wasm"] {
            fs::write(at(name), "").unwrap();
        }
        fs::create_dir(at("cases")).unwrap();
        let hint = |name: &str, is_dir| hint_of_missing(&at(name), is_dir);
        let expected = format!("is it {}?", at("usb_device.wasm").display());
        assert_eq!(hint("usb-device.wasm", false), Some(expected));
        let expected = format!("is it {}?", at("cases").display());
        assert_eq!(hint("case", true), Some(expected));
        assert_eq!(hint("case", false), None);
        assert_eq!(hint("other.wasm", false), None);
        assert_eq!(hint("smbios.wasm", false), None);
    }
}
