//! Finds keys, and adds the mappings that lead to them.

use super::block_mapping::{MappingLines, ValueKind, depth, is_idle, split_key, value_below};
use super::{CloudInitError, KeyPosition, Yaml, inline_value, names, value_rendering};

impl Yaml {
    pub(super) fn top(&self) -> MappingLines {
        MappingLines {
            begin: 0,
            end: self.lines.len(),
            indent: 0,
        }
    }

    /// The key at a path and the mapping that it is in.
    pub(super) fn find_path(
        &self,
        path: &str,
    ) -> Result<Option<(KeyPosition, MappingLines)>, CloudInitError> {
        let mut scope = self.top();
        let mut found = None;
        for name in names(path)? {
            if let Some((above, key)) = found.take() {
                scope = match self.mapping(&above, scope, key)? {
                    Some(scope) => scope,
                    None => return Ok(None),
                };
            }
            match self.find(scope, name)? {
                Some(here) => found = Some((here, name)),
                None => return Ok(None),
            }
        }
        Ok(found.map(|(found, _)| (found, scope)))
    }

    /// The mapping at a path of keys, which are added where they are missing.
    pub(super) fn ensure(&mut self, names: &[&str]) -> Result<MappingLines, CloudInitError> {
        let mut scope = self.top();
        for (at, name) in names.iter().enumerate() {
            let Some(mut found) = self.find(scope, name)? else {
                self.may_end(scope, name)?;
                return Ok(self.add_keys(scope, &names[at..]));
            };
            let empty = MappingLines {
                begin: found.line + 1,
                end: found.line + 1,
                indent: scope.indent + 2,
            };
            self.open(&mut found);
            scope = self.mapping(&found, scope, name)?.unwrap_or(empty);
        }
        Ok(scope)
    }

    pub(super) fn add_keys(&mut self, scope: MappingLines, names: &[&str]) -> MappingLines {
        let mut scope = scope;
        for name in names {
            let line = format!(
                "{}{}:",
                " ".repeat(scope.indent),
                value_rendering::key(name)
            );
            self.lines.insert(scope.end, line);
            scope = MappingLines {
                begin: scope.end + 1,
                end: scope.end + 1,
                indent: scope.indent + 2,
            };
        }
        scope
    }

    /// Makes `key:` of `key: {}`.
    pub(super) fn open(&mut self, found: &mut KeyPosition) {
        let line = &mut self.lines[found.line];
        let end = inline_value::end(&line[found.value..]).map(|end| found.value + end);
        if let Some(end) = end.filter(|end| &line[found.value..*end] == "{}") {
            let rest = line[end..].to_owned();
            line.truncate(found.value);
            line.truncate(line.trim_end().len());
            line.push_str(&rest);
            // What is left there, if anything, is a comment.
            found.value = line.len() - rest.trim_start().len();
        }
    }

    /// The mapping of a key; `None` if it has no value.
    pub(super) fn mapping(
        &self,
        found: &KeyPosition,
        scope: MappingLines,
        key: &str,
    ) -> Result<Option<MappingLines>, CloudInitError> {
        let written = &self.lines[found.line][found.value..];
        let below = value_below(&self.lines, found.line, scope.indent);
        match below {
            ValueKind::Nothing if is_idle(written) => Ok(None),
            ValueKind::Mapping(scope) if is_idle(written) => Ok(Some(scope)),
            _ => Err(CloudInitError::NotAMapping {
                key: key.to_owned(),
                line: found.line + 1,
            }),
        }
    }

    pub(super) fn find(
        &self,
        scope: MappingLines,
        name: &str,
    ) -> Result<Option<KeyPosition>, CloudInitError> {
        let mut found = self.entries(scope).filter(|(_, key, _)| *key == name);
        let first = found.next();
        if found.next().is_some() {
            return Err(CloudInitError::Ambiguous {
                key: name.to_owned(),
            });
        }
        Ok(first.map(|(line, _, value)| KeyPosition { line, value }))
    }

    /// Line, key and value's place of each entry.
    pub(super) fn entries(
        &self,
        scope: MappingLines,
    ) -> impl Iterator<Item = (usize, &str, usize)> {
        let lines = self.lines[scope.begin..scope.end].iter().enumerate();
        lines.filter_map(move |(at, line)| {
            if depth(line) != scope.indent {
                return None;
            }
            let (key, value) = split_key(&line[scope.indent..])?;
            Some((scope.begin + at, key, scope.indent + value))
        })
    }

    /// Anchors, aliases and tags tie a value to others.
    pub(super) fn is_free(&self, found: &KeyPosition, key: &str) -> Result<(), CloudInitError> {
        if self.lines[found.line][found.value..].starts_with(['&', '*', '!']) {
            return Err(CloudInitError::AnchorOrTag {
                key: key.to_owned(),
                line: found.line + 1,
            });
        }
        Ok(())
    }

    /// A key can be added to the top only where the text's end is the end of its one mapping.
    pub(super) fn may_end(&self, scope: MappingLines, key: &str) -> Result<(), CloudInitError> {
        if scope != self.top() {
            return Ok(());
        }
        let document_marker = self.lines.iter().enumerate().find(|(at, line)| {
            let begins_document =
                line.trim_end() == "---" && self.lines[..*at].iter().all(|line| is_idle(line));
            !begins_document
                && (line.starts_with(['{', '[', '%', '!', '|', '>', '"', '\'', '&', '*', '?'])
                    && split_key(line).is_none()
                    || line.starts_with("---")
                    || line.starts_with("..."))
        });
        match document_marker {
            Some((at, _)) => Err(CloudInitError::NotAMapping {
                key: key.to_owned(),
                line: at + 1,
            }),
            None => Ok(()),
        }
    }
}
