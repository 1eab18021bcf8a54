//! Text, comments, CDATA and processing instructions between tags, and the XML declaration.

use super::{ParseErrorKind, Scan, ScanResult, flaw, syntax};
use crate::byte_classes::{self, BRACKET, MARKUP, MAY_BE_FORBIDDEN, SPACE};
use crate::markup_delimiters::{
    CDATA, CDATA_END, COMMENT, COMMENT_END, INSTRUCTION, INSTRUCTION_END,
};
use crate::{escape, name};

/// Maximum length of a reference in bytes, with `&` and `;`. Without it, scanning `&&&&…` takes quadratic time.
const MAX_REFERENCE: usize = 17;

const UNCLOSED_INSTRUCTION: &str = "a processing instruction is not closed";

impl Scan<'_> {
    pub(super) fn character_data(&mut self) -> ScanResult<()> {
        let from = self.at;
        let mut at = from;
        loop {
            at = byte_classes::until(self.bytes, at, MARKUP | BRACKET | MAY_BE_FORBIDDEN);
            at = match self.bytes.get(at) {
                None | Some(b'<') => break,
                Some(b'&') => self.reference(at)?,
                Some(b']') if self.bytes[at..].starts_with(CDATA_END) => {
                    return Err(syntax(at, "`]]>` must be written ]]&gt; in text"));
                }
                Some(b']') => at + 1,
                Some(_) => self.character(at)?,
            };
        }
        self.at = at;
        if !self.open.is_empty() {
            return self.count_nodes(1, from);
        }
        if byte_classes::is_blank(&self.text[from..at]) {
            return Ok(());
        }
        Err(flaw(from, ParseErrorKind::OutsideRoot))
    }

    /// Checks a reference, and returns the index after it.
    pub(super) fn reference(&self, at: usize) -> ScanResult<usize> {
        let window = self.bytes[at..].iter().take(MAX_REFERENCE);
        let end = window.clone().position(|byte| *byte == b';');
        let name = end.map_or("", |end| &self.text[at + 1..at + end]);
        if escape::resolve(name).is_none() {
            return Err(flaw(at, ParseErrorKind::BadReference(name.to_owned())));
        }
        Ok(at + name.len() + 2)
    }

    /// Checks a character, and returns the index after it.
    pub(super) fn character(&self, at: usize) -> ScanResult<usize> {
        let character = self.text[at..].chars().next().unwrap_or_default();
        if escape::is_char(character) {
            Ok(at + character.len_utf8())
        } else {
            Err(flaw(at, ParseErrorKind::BadCharacter(character)))
        }
    }

    pub(super) fn comment_or_cdata(&mut self) -> ScanResult<()> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(COMMENT) {
            let close = self.checked_end(COMMENT, COMMENT_END, "a comment is not closed")?;
            let inside = &rest[COMMENT.len()..close - self.at - COMMENT_END.len()];
            if inside.ends_with(b"-") || byte_classes::find(inside, 0, b"--").is_some() {
                return Err(syntax(self.at, "`--` may not stand in a comment"));
            }
            return self.skip_markup(close);
        }
        if rest.starts_with(CDATA) {
            if self.open.is_empty() {
                return Err(flaw(self.at, ParseErrorKind::OutsideRoot));
            }
            let close = self.checked_end(CDATA, CDATA_END, "a CDATA section is not closed")?;
            return self.skip_markup(close);
        }
        if rest
            .get(2)
            .is_some_and(|byte| byte.eq_ignore_ascii_case(&b'd'))
        {
            return Err(flaw(self.at, ParseErrorKind::Doctype));
        }
        Err(syntax(
            self.at,
            "`<!` begins neither a comment nor a CDATA section",
        ))
    }

    pub(super) fn instruction(&mut self) -> ScanResult<()> {
        let close = self.checked_end(INSTRUCTION, INSTRUCTION_END, UNCLOSED_INSTRUCTION)?;
        if self.is_declaration() {
            return Err(syntax(
                self.at,
                "an XML declaration may only stand at the very start",
            ));
        }
        let inside = &self.text[self.at + 2..close - 2];
        let target = &inside[..byte_classes::until(inside.as_bytes(), 0, SPACE)];
        if !name::is_valid(target) || target.eq_ignore_ascii_case("xml") {
            return Err(flaw(self.at, ParseErrorKind::BadName(target.to_owned())));
        }
        self.skip_markup(close)
    }

    /// Continues after markup that is allowed inside and outside of the root.
    fn skip_markup(&mut self, close: usize) -> ScanResult<()> {
        if !self.open.is_empty() {
            self.count_nodes(1, self.at)?;
        }
        self.at = close;
        Ok(())
    }

    /// Searches the end of comments, CDATA and instructions, and returns the index after it.
    fn checked_end(&self, opening: &[u8], closing: &[u8], unclosed: &str) -> ScanResult<usize> {
        let Some(end) = byte_classes::find(self.bytes, self.at + opening.len(), closing) else {
            return Err(syntax(self.at, unclosed));
        };
        let mut at = self.at;
        loop {
            at = byte_classes::until(&self.bytes[..end], at, MAY_BE_FORBIDDEN);
            if at == end {
                return Ok(end + closing.len());
            }
            at = self.character(at)?;
        }
    }

    /// Checks the XML declaration. Its encoding must be the actual one, since the next reader of the text relies on it.
    pub(super) fn declaration(&mut self) -> ScanResult<()> {
        let start = self.at;
        let close = self.checked_end(INSTRUCTION, INSTRUCTION_END, UNCLOSED_INSTRUCTION)?;
        let name_end = self.name_end(start + 2)?;
        if self.attributes(name_end)? != (b'?', close) {
            return Err(syntax(
                start,
                "the first `?>` of the XML declaration does not close it",
            ));
        }
        let part = |(from, to): (u32, u32)| &self.text[from as usize..to as usize];
        let mut attributes = self.attributes.iter();
        let encoding = attributes.find(|attribute| part(attribute.name) == "encoding");
        let encoding = encoding.map_or("UTF-8", |attribute| part(attribute.value));
        let known = ["UTF-8", "UTF8", "US-ASCII"];
        if !known
            .iter()
            .any(|known| known.eq_ignore_ascii_case(encoding))
        {
            return Err(flaw(start, ParseErrorKind::Encoding(encoding.to_owned())));
        }
        self.at = close;
        Ok(())
    }

    pub(super) fn is_declaration(&self) -> bool {
        match self.bytes[self.at..].strip_prefix(b"<?xml") {
            Some([next, ..]) => *next == b'?' || byte_classes::is(*next, SPACE),
            _ => false,
        }
    }
}
