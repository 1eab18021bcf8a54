//! Files named on the command line, read up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;

use crate::verb_failure::Failure;

/// Maximum size of a JSON file in bytes.
const MAX_JSON: usize = 4 * 1024 * 1024;
const STANDARD_INPUT: &str = "-";

/// The name of a file in errors.
pub(crate) fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// The content of a file, or standard input for `-`.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let bytes = read_at_most(path, limit as u64 + 1)
        .with_context(|| name(path))
        .map_err(Failure::Usage)?;
    if bytes.len() > limit {
        return Err(Failure::usage(anyhow!(
            "{}: it has more than the {limit} bytes that are read",
            name(path)
        )));
    }
    Ok(bytes)
}

fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == STANDARD_INPUT {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Reads and parses a JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let bytes = read(path, MAX_JSON)?;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: not the JSON expected here", name(path)))
        .map_err(Failure::Usage)
}

/// Reads a file that must be UTF-8.
pub(crate) fn text(path: &Path, limit: usize) -> Result<String, Failure> {
    String::from_utf8(read(path, limit)?)
        .with_context(|| format!("{}: it is not UTF-8", name(path)))
        .map_err(Failure::Usage)
}
