//! Files named on the command line, read up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The most that is read of options and host facts, in bytes.
const MAX_JSON: usize = 4 * 1024 * 1024;
const STANDARD_INPUT: &str = "-";

/// What errors call a file.
pub(super) fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// The content of a file, or standard input for `-`.
pub(super) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    let bytes = read_some(path, limit as u64 + 1)
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

fn read_some(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == STANDARD_INPUT {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// A JSON file.
pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let bytes = read(path, MAX_JSON)?;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: not the JSON expected here", name(path)))
        .map_err(Failure::Usage)
}
