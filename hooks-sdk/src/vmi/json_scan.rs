//! Reads values from JSON without building a tree: reading one annotation is one scan of the text up to it.
//!
//! Small and fast, because every call of every hook uses it: other values are skipped by their
//! quotes and brackets, not parsed. Property tests compare it with serde_json.

mod escapes;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use crate::dotted_path::Step;

/// Why and where a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonSyntaxError {
    expected: &'static str,
    line: usize,
    column: usize,
}

impl fmt::Display for JsonSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JsonSyntaxError {
            expected,
            line,
            column,
        } = self;
        write!(f, "expected {expected} at line {line}, column {column}")
    }
}

/// The JSON text of the value that the steps lead to. No step may be a [`Step::Where`].
pub(super) fn find<'j>(
    json: &'j str,
    steps: &[Step<'_>],
) -> Result<Option<&'j str>, JsonSyntaxError> {
    let mut scan = Scan::new(json);
    for step in steps {
        if !scan.enter(step)? {
            return Ok(None);
        }
    }
    scan.value().map(Some)
}

/// A name and the JSON text of its value.
pub(super) type Member<'j> = (Cow<'j, str>, &'j str);

/// The members of an object, or the items of a list without names; nothing for other values.
pub(super) fn inside(json: &str) -> Result<Vec<Member<'_>>, JsonSyntaxError> {
    let mut scan = Scan::new(json);
    let mut found = Vec::new();
    let Some(open @ (b'{' | b'[')) = scan.peek() else {
        return Ok(found);
    };
    let close = open + 2;
    let mut more = scan.open(close);
    while more {
        let name = match open {
            b'{' => scan.name()?,
            _ => Cow::Borrowed(""),
        };
        found.push((name, scan.value()?));
        more = scan.has_next(close)?;
    }
    Ok(found)
}

/// The text of a JSON string, unescaped.
pub(super) fn text(json: &str) -> Result<Cow<'_, str>, JsonSyntaxError> {
    Scan::new(json).string()
}

struct Scan<'j> {
    json: &'j str,
    at: usize,
}

impl<'j> Scan<'j> {
    fn new(json: &'j str) -> Self {
        Scan { json, at: 0 }
    }

    /// The next byte after white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.json.as_bytes()[self.at..];
        let space = rest
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += space.unwrap_or(rest.len());
        self.json.as_bytes().get(self.at).copied()
    }

    /// Moves from the start of a value to the start of the one that the step leads to.
    fn enter(&mut self, step: &Step<'_>) -> Result<bool, JsonSyntaxError> {
        match (self.peek(), step) {
            (Some(b'{'), Step::Member(wanted)) => {
                let mut more = self.open(b'}');
                while more {
                    if self.name()? == *wanted {
                        return Ok(true);
                    }
                    self.value()?;
                    more = self.has_next(b'}')?;
                }
            }
            (Some(b'['), Step::Item(wanted)) => {
                let mut more = self.open(b']');
                for at in 0.. {
                    if !more || at == *wanted {
                        return Ok(more);
                    }
                    self.value()?;
                    more = self.has_next(b']')?;
                }
            }
            // Another kind of value, or the end.
            _ => {
                self.value()?;
            }
        }
        Ok(false)
    }

    /// Skips an opening bracket. Returns whether there is a value before the closing bracket.
    fn open(&mut self, close: u8) -> bool {
        self.at += 1;
        self.peek() != Some(close)
    }

    /// Skips a comma, or stops at the closing bracket.
    fn has_next(&mut self, close: u8) -> Result<bool, JsonSyntaxError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => Ok(false),
            _ => Err(self.expected("a comma or a closing bracket")),
        }
    }

    /// A member's name and the colon after it.
    fn name(&mut self) -> Result<Cow<'j, str>, JsonSyntaxError> {
        self.peek();
        let name = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.expected("a colon"));
        }
        self.at += 1;
        Ok(name)
    }

    /// Returns the text of the value and skips it.
    fn value(&mut self) -> Result<&'j str, JsonSyntaxError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => {
                self.quoted()?;
            }
            Some(b'{' | b'[') => self.bracketed()?,
            _ => self.word()?,
        }
        Ok(&self.json[start..self.at])
    }

    fn word(&mut self) -> Result<(), JsonSyntaxError> {
        let rest = &self.json.as_bytes()[self.at..];
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        if length == 0 {
            return Err(self.expected("a value"));
        }
        self.at += length;
        Ok(())
    }

    /// Skips brackets with their content.
    fn bracketed(&mut self) -> Result<(), JsonSyntaxError> {
        let mut depth = 0_usize;
        while let Some(byte) = self.json.as_bytes().get(self.at) {
            match byte {
                b'"' => {
                    self.quoted()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.expected("a closing bracket"))
    }

    /// Skips a string and returns the text between its quotes.
    fn quoted(&mut self) -> Result<&'j str, JsonSyntaxError> {
        if self.json.as_bytes().get(self.at) != Some(&b'"') {
            return Err(self.expected("a text"));
        }
        let start = self.at + 1;
        let mut at = start;
        while let Some(byte) = self.json.as_bytes().get(at) {
            match byte {
                b'"' => {
                    self.at = at + 1;
                    return Ok(&self.json[start..at]);
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.at = self.json.len();
        Err(self.expected("a closing quote"))
    }

    fn string(&mut self) -> Result<Cow<'j, str>, JsonSyntaxError> {
        let start = self.at;
        let inside = self.quoted()?;
        if !inside.contains('\\') {
            return Ok(Cow::Borrowed(inside));
        }
        match escapes::unescaped(inside) {
            Some(text) => Ok(Cow::Owned(text)),
            None => {
                self.at = start;
                Err(self.expected("a text with escapes that JSON knows"))
            }
        }
    }

    fn expected(&self, expected: &'static str) -> JsonSyntaxError {
        let before = &self.json[..self.at.min(self.json.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        JsonSyntaxError {
            expected,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}
