//! Adds items to lists.

use serde_json::Value;

use super::block_mapping::{MappingLines, ValueKind, continues_list, depth, is_idle, value_below};
use super::{CloudInitError, KeyPosition, Yaml, bad_path, inline_value, names, value_rendering};

impl Yaml {
    /// Adds an item to the list at the key, unless the list has it: a text or number in whatever notation, anything
    /// else as an earlier call wrote it. Adds the key if it is missing.
    ///
    /// # Errors
    /// If the path is invalid, or the key holds something that no item can be added to.
    pub fn add(&mut self, path: &str, item: &crate::Value) -> Result<(), CloudInitError> {
        self.add_json(path, item.as_serde_json())
    }

    pub(in crate::cloud_init) fn add_json(
        &mut self,
        path: &str,
        item: &Value,
    ) -> Result<(), CloudInitError> {
        let flow = item.to_string();
        self.add_lines(path, item, &flow, |indent| {
            value_rendering::item(item, indent)
        })
    }

    /// The same for a word, written without quotes.
    pub(in crate::cloud_init) fn add_plain(
        &mut self,
        path: &str,
        word: &str,
    ) -> Result<(), CloudInitError> {
        self.add_lines(path, &word.into(), word, |indent| {
            vec![format!("{}- {word}", " ".repeat(indent))]
        })
    }

    fn add_lines(
        &mut self,
        path: &str,
        item: &Value,
        flow: &str,
        block: impl Fn(usize) -> Vec<String>,
    ) -> Result<(), CloudInitError> {
        let mut names = names(path)?;
        let Some(name) = names.pop() else {
            return Err(bad_path(path));
        };
        let scope = self.ensure(&names)?;
        let Some(found) = self.find(scope, name)? else {
            self.may_end(scope, name)?;
            let pad = " ".repeat(scope.indent);
            let mut added = vec![format!("{pad}{}:", value_rendering::key(name))];
            added.extend(block(scope.indent + 2));
            self.lines.splice(scope.end..scope.end, added);
            return Ok(());
        };
        let refused = || CloudInitError::NotAList {
            key: name.to_owned(),
            line: found.line + 1,
        };
        let written = &self.lines[found.line][found.value..];
        if !is_idle(written) {
            return self.add_to_flow(&found, item, flow).ok_or_else(refused);
        }
        let list = match value_below(&self.lines, found.line, scope.indent) {
            ValueKind::List(list) => list,
            ValueKind::Nothing => MappingLines {
                begin: found.line + 1,
                end: found.line + 1,
                indent: scope.indent + 2,
            },
            ValueKind::Mapping(_) | ValueKind::Other => return Err(refused()),
        };
        let added = block(list.indent);
        let items = &self.lines[list.begin..list.end];
        let is_item = |(at, line): (usize, &String)| {
            let written = line.get(list.indent..).and_then(|at| at.strip_prefix("- "));
            depth(line) == list.indent
                && written.is_some_and(|at| inline_value::is_item(at, item))
                && !continues_list(&items[at + 1..], list.indent)
        };
        let is_present = items.iter().enumerate().any(is_item)
            || items.windows(added.len()).any(|lines| lines == added);
        if !is_present {
            self.lines.splice(list.end..list.end, added);
        }
        Ok(())
    }

    /// `key: [a, b]` on one line.
    fn add_to_flow(&mut self, found: &KeyPosition, item: &Value, flow: &str) -> Option<()> {
        let line = &mut self.lines[found.line];
        let written = &line[found.value..];
        let list = &written[..inline_value::end(written)?];
        let inside = list.strip_prefix('[')?.strip_suffix(']')?;
        if inline_value::close(list) != Some(list.len() - 1) {
            return None;
        }
        let mut items = inline_value::items(inside).into_iter();
        if items.any(|written| inline_value::is_item(written, item)) {
            return Some(());
        }
        let separator = match inside.trim_end() {
            "" => "",
            // YAML allows a comma after the last item, and no second one.
            open if open.ends_with(',') => " ",
            _ => ", ",
        };
        let close = found.value + list.len() - 1;
        line.insert_str(close, &format!("{separator}{flow}"));
        Some(())
    }
}
