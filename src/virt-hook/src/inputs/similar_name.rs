//! The known name that a misspelt one resembles.

use std::fs;
use std::path::Path;

/// The similarity, of at most 1, from which on a known name is suggested.
const MIN_SIMILARITY: f64 = 0.8;

/// The most similar of the known names, if it is similar enough.
pub(super) fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let rated = known.map(|known| {
        let rating = strsim::jaro_winkler(&lower, &known.to_lowercase());
        (rating, known)
    });
    let best = rated.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    best.filter(|(rating, _)| *rating >= MIN_SIMILARITY)
        .map(|(_, known)| known)
}

/// A hint for the error about a path that does not exist: a similar name in the same directory, of the same kind.
pub(crate) fn hint_of_missing(path: &Path, is_dir: bool) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let parent = path.parent()?;
    let directory = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let entries = fs::read_dir(directory).ok()?.flatten();
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
    use super::*;

    #[test]
    fn hint_of_a_missing_path_has_the_name_of_a_similar_one() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path_of = |name: &str| temp_dir.path().join(name);
        for name in ["usb_device.wasm", "usb-device.yaml", "smbios.wasm"] {
            fs::write(path_of(name), "").unwrap();
        }
        fs::create_dir(path_of("cases")).unwrap();
        let hint = |name: &str, is_dir| hint_of_missing(&path_of(name), is_dir);
        let expected = format!("is it {}?", path_of("usb_device.wasm").display());
        assert_eq!(hint("usb-device.wasm", false), Some(expected));
        let expected = format!("is it {}?", path_of("cases").display());
        assert_eq!(hint("case", true), Some(expected));
        assert_eq!(hint("case", false), None);
        assert_eq!(hint("other.wasm", false), None);
        assert_eq!(hint("smbios.wasm", false), None);
    }
}
