//! Decodes the guest agent's answers within limits.
//!
//! The guest is not trusted. An answer that is too large is an error before it is parsed. The decoder keeps a limited
//! number of list items and of characters per text, and the JSON parser limits the nesting. Items beyond a limit are
//! left out. Control characters become U+FFFD, since the texts appear in logs and in the VMI's status.

mod bounded_values;
mod network_interfaces;
mod polled_answers;

pub(crate) use network_interfaces::interfaces;
pub(crate) use polled_answers::{
    agent_version, filesystems, freeze_status, hostname, load, os_info, timezone, users,
};

use serde::Deserialize;

use super::quote;

/// Maximum size of an answer in bytes. A list of 40 commands takes 2 KiB, one of 100 file systems 30 KiB.
pub(crate) const MAX_ANSWER_BYTES: usize = 512 * 1024;

/// An invalid answer of the guest agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is too large.
    #[error(
        "the guest agent's answer has {bytes} bytes, more than the {MAX_ANSWER_BYTES} that are read"
    )]
    Size {
        /// The size of the answer.
        bytes: usize,
    },
    /// The answer does not follow the agent's protocol.
    #[error("the guest agent's answer cannot be read: {0}")]
    Content(String),
}

impl AnswerError {
    /// An error about the content. The text is shortened and made printable, since it may quote the answer.
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

/// Checks the size of an answer that is passed on without decoding.
pub(crate) fn check_size(answer: &str) -> Result<(), AnswerError> {
    match answer.len() {
        0..=MAX_ANSWER_BYTES => Ok(()),
        bytes => Err(AnswerError::Size { bytes }),
    }
}

/// Decodes the answer to `guest-fsfreeze-freeze`: the number of file systems that were frozen.
pub(crate) fn frozen_count(answer: &str) -> Result<u64, AnswerError> {
    decode(answer)
}

#[cfg(test)]
mod tests;
