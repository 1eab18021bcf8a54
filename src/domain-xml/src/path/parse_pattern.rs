//! Parses a [`PathPattern`].

#[cfg(test)]
mod tests;

use super::{NameTest, PathError, PathErrorKind, PathPattern, Predicate, Step, Target};
use crate::name;

/// Each step is one bit of the selection's state.
pub(super) const MAX_STEPS: usize = 60;

pub(super) fn parse(path: &str) -> Result<PathPattern, PathError> {
    let mut cursor = Cursor { path, at: 0 };
    let absolute = cursor.take("/");
    let mut steps = Vec::new();
    let mut target = Target::Element;
    loop {
        if cursor.take("@") {
            target = Target::Attribute(cursor.name_test("the name of an attribute")?);
            break;
        }
        steps.push(cursor.step()?);
        if steps.len() > MAX_STEPS {
            return Err(cursor.error(PathErrorKind::TooManySteps(MAX_STEPS)));
        }
        if !cursor.take("/") {
            break;
        }
    }
    if !cursor.rest().is_empty() {
        return Err(cursor.expected("`/`, `[` or the end of the path"));
    }
    if absolute && steps.is_empty() {
        return Err(cursor.expected("the name of the root element before an attribute"));
    }
    Ok(PathPattern {
        source: path.to_owned(),
        absolute,
        steps,
        target,
    })
}

struct Cursor<'a> {
    path: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.path[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn error(&self, kind: PathErrorKind) -> PathError {
        let column = self.path[..self.at].chars().count() + 1;
        PathError {
            path: self.path.to_owned(),
            column,
            kind,
        }
    }

    fn expected(&self, what: &'static str) -> PathError {
        self.error(PathErrorKind::Expected(what))
    }

    fn step(&mut self) -> Result<Step, PathError> {
        if self.take("**") {
            return Ok(Step::Descend);
        }
        let name = self.name_test("the name of an element, `*`, `**` or `@`")?;
        let mut predicates = Vec::new();
        while self.take("[") {
            predicates.push(self.predicate()?);
        }
        Ok(Step::Child { name, predicates })
    }

    fn word(&mut self, what: &'static str) -> Result<&'a str, PathError> {
        let rest = self.rest();
        let ends =
            |c: char| matches!(c, '/' | '[' | ']' | '@' | '=' | '\'' | '"') || c.is_whitespace();
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.expected(what));
        }
        self.at += word.len();
        Ok(word)
    }

    fn name_test(&mut self, what: &'static str) -> Result<NameTest, PathError> {
        let start = self.at;
        let word = self.word(what)?;
        if word == "*" {
            return Ok(NameTest::Any);
        }
        match word.strip_suffix('*') {
            Some(start) if start.strip_suffix(':').is_some_and(name::is_valid_part) => {
                Ok(NameTest::Prefix(start.to_owned()))
            }
            None if name::is_valid(word) => Ok(NameTest::Exact(word.to_owned())),
            _ => {
                self.at = start;
                Err(self.error(PathErrorKind::BadName(word.to_owned())))
            }
        }
    }

    fn exact_name(&mut self, what: &'static str) -> Result<String, PathError> {
        let start = self.at;
        match self.name_test(what)? {
            NameTest::Exact(name) => Ok(name),
            NameTest::Any | NameTest::Prefix(_) => {
                self.at = start;
                Err(self.expected("a name without `*` in a predicate"))
            }
        }
    }

    /// The inside of `[` and `]`.
    fn predicate(&mut self) -> Result<Predicate, PathError> {
        let predicate = match self.position()? {
            Some(position) => Predicate::Position(position),
            None => self.condition()?,
        };
        if self.take("]") {
            Ok(predicate)
        } else {
            Err(self.expected("`]`"))
        }
    }

    fn position(&mut self) -> Result<Option<usize>, PathError> {
        let rest = self.rest();
        let digits = &rest[..rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())];
        if digits.is_empty() {
            return Ok(None);
        }
        let position = digits.parse().ok().filter(|n| *n > 0);
        let position = position.ok_or_else(|| self.expected("a position from 1"))?;
        self.at += digits.len();
        Ok(Some(position))
    }

    fn condition(&mut self) -> Result<Predicate, PathError> {
        let mut names = Vec::new();
        let mut target = Target::Element;
        if !self.take("text()") {
            loop {
                if self.take("@") {
                    target = Target::Attribute(NameTest::Exact(
                        self.exact_name("the name of an attribute")?,
                    ));
                    break;
                }
                names.push(self.exact_name("a position, a name or `@`")?);
                if !self.take("/") {
                    break;
                }
            }
        }
        let value = if self.take("=") {
            Some(self.quoted()?)
        } else {
            None
        };
        Ok(Predicate::Holds {
            names,
            target,
            value,
        })
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or_else(|| self.expected("a value in quotes"))?;
        let end = rest[1..]
            .find(quote)
            .ok_or_else(|| self.expected("a value whose quotes are closed"))?;
        self.at += end + 2;
        Ok(rest[1..=end].to_owned())
    }
}
