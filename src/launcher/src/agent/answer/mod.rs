//! The guest agent's answers, read within limits.
//!
//! The guest is not trusted. An answer that is too large is refused before it is parsed; parsing keeps a bounded number
//! of list items and of characters per text, and the parser's own depth limit ends deep nesting. What exceeds a
//! count is left out; control characters become U+FFFD, since the texts end in logs and in the VMI's status.

mod bounded_values;
mod polled_answers;

pub(crate) use polled_answers::{
    agent_version, filesystems, freeze_status, hostname, interfaces, load, os_info, timezone, users,
};

use serde::Deserialize;

use super::quote;

/// The largest answer that is parsed, in bytes. A list of 40 commands takes 2 KiB, of 100 file systems 30 KiB.
pub(crate) const MOST_BYTES: usize = 512 * 1024;

/// An answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is too large.
    #[error("the guest agent's answer has {bytes} bytes, more than the {MOST_BYTES} that are read")]
    Size {
        /// Its size.
        bytes: usize,
    },
    /// It is not what the agent's protocol says.
    #[error("the guest agent's answer cannot be read: {0}")]
    Content(String),
}

impl AnswerError {
    /// The parser's errors quote the answer.
    pub(super) fn content(error: &str) -> AnswerError {
        AnswerError::Content(quote(error))
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    #[serde(rename = "return")]
    value: T,
}

/// The `return` value of an answer.
pub(super) fn decode<'a, T: Deserialize<'a>>(answer: &'a str) -> Result<T, AnswerError> {
    check_size(answer)?;
    let answer: Answer<T> =
        serde_json::from_str(answer).map_err(|error| AnswerError::content(&error.to_string()))?;
    Ok(answer.value)
}

/// Checks an answer that is passed on unread.
pub(crate) fn check_size(answer: &str) -> Result<(), AnswerError> {
    match answer.len() {
        0..=MOST_BYTES => Ok(()),
        bytes => Err(AnswerError::Size { bytes }),
    }
}

/// Of `guest-fsfreeze-freeze`: how many file systems it froze.
pub(crate) fn frozen_count(answer: &str) -> Result<u64, AnswerError> {
    decode(answer)
}

#[cfg(test)]
mod tests;
