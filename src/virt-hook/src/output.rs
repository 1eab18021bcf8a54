//! Results on standard output.

use std::io::{self, Write};

use crate::failure::Failure;

/// Writes a result, with a line's end. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut text = text.trim_end().to_owned();
    text.push('\n');
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::usage(
            anyhow::Error::new(error).context("writing to standard output"),
        )),
        _ => Ok(()),
    }
}
