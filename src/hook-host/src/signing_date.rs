//! The date of signing in a module: a custom section of WebAssembly, which the module's digest and signature cover and
//! the engine ignores. A signature alone has no time that can be trusted.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use jiff::Timestamp;

use crate::printable::printable;
use crate::wasm_length::leb128;

/// The name of the custom section.
const SECTION: &str = "virt-hook:signed-at";
/// The format of a date in texts.
const FORMAT: &str = "such as 2026-11-01T00:00:00Z: UTC, to the second";

/// The header of every WebAssembly file: magic number, version and layer.
const HEADER_BYTES: usize = 8;
/// The id of a custom section.
const CUSTOM: u8 = 0;
/// Maximum length of what errors quote.
const MAX_QUOTED: usize = 64;

/// When a module was signed: RFC 3339 in UTC, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SigningDate(Timestamp);

/// Why a module's date cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningDateError {
    /// The text is not a date in the one format.
    #[error("{0:?} is not a date {FORMAT}")]
    Format(String),
    /// The module has several dates.
    #[error("it has several sections {SECTION}, and one is wanted: build it again, and sign that")]
    Several,
    /// The file is not WebAssembly, or ends within a section.
    #[error("it is not complete WebAssembly: build it, or copy it, again")]
    Incomplete,
}

impl SigningDate {
    /// The current time of this machine.
    #[must_use]
    pub fn now() -> Self {
        let seconds = Timestamp::now().as_second();
        Self(Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// The date in a module; `None` if it has none.
    pub fn of(module: &[u8]) -> Result<Option<Self>, SigningDateError> {
        let sections = date_sections(module)?;
        let [date] = &sections[..] else {
            return match sections.is_empty() {
                true => Ok(None),
                false => Err(SigningDateError::Several),
            };
        };
        let content = &module[date.content.clone()];
        let text = std::str::from_utf8(content)
            .map_err(|_| SigningDateError::Format(printable_bytes(content)))?;
        text.parse().map(Some)
    }

    /// The module with this date, in place of the dates that it has.
    pub fn stamp(self, module: &[u8]) -> Result<Vec<u8>, SigningDateError> {
        let mut stamped = Vec::with_capacity(module.len() + 64);
        let mut copied = 0;
        for date in date_sections(module)? {
            stamped.extend_from_slice(&module[copied..date.whole.start]);
            copied = date.whole.end;
        }
        stamped.extend_from_slice(&module[copied..]);
        let text = self.to_string();
        let length = |text: &str| u8::try_from(text.len()).ok().filter(|byte| *byte < 0x80);
        // Name and date have fewer than 128 bytes, whose length is one byte.
        let (Some(name), Some(size)) = (
            length(SECTION),
            length(&format!("{SECTION}{text}")).and_then(|size| size.checked_add(1)),
        ) else {
            return Err(SigningDateError::Format(text));
        };
        stamped.extend([CUSTOM, size, name]);
        stamped.extend(SECTION.bytes());
        stamped.extend(text.bytes());
        Ok(stamped)
    }
}

impl FromStr for SigningDate {
    type Err = SigningDateError;

    /// Other notations of the same time are refused, so that dates are compared and shown in one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let date = text.parse::<Timestamp>().ok().map(Self);
        date.filter(|date| date.to_string() == text)
            .ok_or_else(|| SigningDateError::Format(printable(text, MAX_QUOTED)))
    }
}

impl fmt::Display for SigningDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

fn printable_bytes(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes), MAX_QUOTED)
}

/// A custom section with a date, by positions in the module.
struct DateSection {
    /// The section with its header.
    whole: Range<usize>,
    /// The bytes after the section's name.
    content: Range<usize>,
}

/// The sections with a date at the top level of a component or core module.
fn date_sections(module: &[u8]) -> Result<Vec<DateSection>, SigningDateError> {
    let incomplete = SigningDateError::Incomplete;
    if !module.starts_with(b"\0asm") || module.len() < HEADER_BYTES {
        return Err(incomplete);
    }
    let mut dates = Vec::new();
    let mut start = HEADER_BYTES;
    while start < module.len() {
        let content = sized(module, start + 1).filter(|content| content.end <= module.len());
        let content = content.ok_or(SigningDateError::Incomplete)?;
        let name = sized(module, content.start).filter(|name| name.end <= content.end);
        if module[start] == CUSTOM
            && let Some(name) = name
            && module[name.clone()] == *SECTION.as_bytes()
        {
            dates.push(DateSection {
                whole: start..content.end,
                content: name.end..content.end,
            });
        }
        start = content.end;
    }
    Ok(dates)
}

/// The range of bytes that follows its length at this position. The range may end behind the module.
fn sized(module: &[u8], position: usize) -> Option<Range<usize>> {
    let (length, bytes) = leb128(module.get(position..)?)?;
    let start = position + usize::try_from(bytes).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    Some(start..end)
}
