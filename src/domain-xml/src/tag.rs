//! The inside of a start tag, kept to the byte.

use std::borrow::Cow;

use crate::element::Attribute;
use crate::parse::ParseErrorKind;
use crate::{escape, name};

/// Nothing that libvirt knows comes near.
const MAX_ATTRIBUTES: usize = 256;

/// What stands between `<` and `>` or `/>`.
pub(crate) struct StartTag {
    pub(crate) name: String,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) tail: Cow<'static, str>,
}

/// A place within the tag, in bytes, and what is wrong there.
pub(crate) type Flaw = (usize, ParseErrorKind);

/// Takes `name attr='value' ...` apart.
pub(crate) fn parse(source: &str) -> Result<StartTag, Flaw> {
    let end = source.find(is_space).unwrap_or(source.len());
    let tag_name = &source[..end];
    if !name::is_valid(tag_name) {
        return Err((0, ParseErrorKind::BadName(tag_name.to_owned())));
    }
    let mut attributes = Vec::new();
    let mut at = end;
    loop {
        let space = source[at..]
            .find(|c| !is_space(c))
            .unwrap_or(source.len() - at);
        let lead = &source[at..at + space];
        at += space;
        if at == source.len() {
            return Ok(StartTag {
                name: tag_name.to_owned(),
                attributes,
                tail: layout(lead),
            });
        }
        if lead.is_empty() {
            return Err((
                at,
                ParseErrorKind::Syntax("white space is missing before an attribute".into()),
            ));
        }
        let (attribute, next) = attribute(source, at, lead)?;
        refuse_duplicate(&attributes, &attribute).map_err(|kind| (at, kind))?;
        attributes.push(attribute);
        at = next;
    }
}

fn attribute(source: &str, start: usize, lead: &str) -> Result<(Attribute, usize), Flaw> {
    let rest = &source[start..];
    let flaw = |at: usize, text: &str| (start + at, ParseErrorKind::Syntax(text.to_owned()));
    let end = rest.find(|c| is_space(c) || c == '=').unwrap_or(rest.len());
    let attribute_name = &rest[..end];
    if !name::is_valid(attribute_name) {
        return Err((start, ParseErrorKind::BadName(attribute_name.to_owned())));
    }
    let open = rest[end..]
        .find(|c| !is_space(c) && c != '=')
        .map_or(rest.len(), |n| end + n);
    let equals = &rest[end..open];
    if equals.matches('=').count() != 1 {
        return Err(flaw(0, &format!("attribute {attribute_name} has no value")));
    }
    let quote = rest[open..]
        .chars()
        .next()
        .filter(|c| matches!(c, '"' | '\''));
    let quote = quote.ok_or_else(|| flaw(open, "an attribute value needs quotes"))?;
    let close = rest[open + 1..].find(quote).map(|n| open + 1 + n);
    let close = close.ok_or_else(|| flaw(open, "an attribute value is not closed"))?;
    let raw = &rest[open + 1..close];
    if let Some(at) = raw.find('<') {
        return Err(flaw(
            open + 1 + at,
            "`<` must be written &lt; in an attribute value",
        ));
    }
    if let Some((at, reference)) = escape::unknown_reference(raw) {
        return Err((
            start + open + 1 + at,
            ParseErrorKind::BadReference(reference.to_owned()),
        ));
    }
    let attribute = Attribute {
        lead: layout(lead),
        name: attribute_name.to_owned(),
        equals: layout(equals),
        quote,
        raw: raw.to_owned(),
    };
    Ok((attribute, start + close + 1))
}

/// Every pair is looked at, which the number of attributes keeps cheap.
fn refuse_duplicate(earlier: &[Attribute], attribute: &Attribute) -> Result<(), ParseErrorKind> {
    if earlier.len() >= MAX_ATTRIBUTES {
        return Err(ParseErrorKind::TooManyAttributes(MAX_ATTRIBUTES));
    }
    if earlier.iter().any(|earlier| earlier.name == attribute.name) {
        return Err(ParseErrorKind::DuplicateAttribute(attribute.name.clone()));
    }
    Ok(())
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// White space of a tag; the usual forms cost no allocation.
pub(crate) fn layout(raw: &str) -> Cow<'static, str> {
    match raw {
        "" => Cow::Borrowed(""),
        " " => Cow::Borrowed(" "),
        "=" => Cow::Borrowed("="),
        other => Cow::Owned(other.to_owned()),
    }
}
