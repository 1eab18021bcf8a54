//! Whether a module that cargo built is older than its sources.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of bytes that are read of cargo's list of sources.
const MAX_BYTES: u64 = 1 << 20;

/// A source that was changed after the module was built, if there is one. Cargo lists the sources in a file beside the
/// module.
pub(super) fn newer_source(module: &Path) -> Option<PathBuf> {
    let built = modified(module)?;
    let mut list = String::new();
    let file = File::open(module.with_extension("d")).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MAX_BYTES).read_to_string(&mut list).ok()?;
    let (_, sources) = list.lines().next()?.split_once(": ")?;
    // Cargo escapes the spaces within a path.
    let sources = sources.replace("\\ ", "\0");
    let sources = sources
        .split(' ')
        .map(|path| PathBuf::from(path.replace('\0', " ")));
    let mut newer = sources
        .filter(|path| path.is_absolute() && modified(path).is_some_and(|changed| changed > built));
    newer.next()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_source_that_was_changed_after_the_build_is_found() {
        let temp_dir = tempfile::tempdir().unwrap();
        let path_of = |name: &str| temp_dir.path().join(name);
        let (module, source) = (path_of("hook.wasm"), path_of("my lib.rs"));
        let now = SystemTime::now();
        for (path, age) in [(&module, 10), (&source, 20), (&path_of("other.rs"), 30)] {
            let file = File::create(path).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        assert_eq!(newer_source(&module), None);
        let path = |path: &Path| path.display().to_string().replace(' ', "\\ ");
        let list = format!(
            "{}: {} {}\n",
            path(&module),
            path(&path_of("other.rs")),
            path(&source)
        );
        fs::write(path_of("hook.d"), list).unwrap();
        assert_eq!(newer_source(&module), None);
        File::options()
            .append(true)
            .open(&source)
            .unwrap()
            .set_modified(now)
            .unwrap();
        assert_eq!(newer_source(&module), Some(source));
    }
}
