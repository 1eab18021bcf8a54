//! Reads a record file: the JSON of one run.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record_json_format::{Record, VERSION};

/// Maximum size of a record file in bytes: 64 MiB each for the input and the output (`MAX_OUTPUT`), doubled because
/// JSON escapes line breaks and quotes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordReadError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The text is not a record, or a record of another version.
    #[error("no record of a hook's run: {0}")]
    NotARecord(String),
}

impl Record {
    /// Reads a record file.
    pub fn read(path: &Path) -> Result<Self, RecordReadError> {
        Self::parse(&read_text(path)?)
    }

    /// Parses the text of a record file.
    pub fn parse(text: &str) -> Result<Self, RecordReadError> {
        let record: Self = serde_json::from_str(text)
            .map_err(|error| RecordReadError::NotARecord(error.to_string()))?;
        if record.version == VERSION {
            Ok(record)
        } else {
            let reason = format!("version {} is not {VERSION}", record.version);
            Err(RecordReadError::NotARecord(reason))
        }
    }
}

/// The text of a record file.
fn read_text(path: &Path) -> Result<String, RecordReadError> {
    let io_error = |source| RecordReadError::Io {
        path: path.to_owned(),
        source,
    };
    // Opening a pipe without a writer would block.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    if !metadata.is_file() {
        return Err(io_error(io::Error::other("it is not a regular file")));
    }
    if metadata.len() > MAX_FILE_BYTES {
        let reason = format!("it has more than the {MAX_FILE_BYTES} bytes a record may have");
        return Err(io_error(io::Error::other(reason)));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(io_error)?;
    Ok(text)
}
