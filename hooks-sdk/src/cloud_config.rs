//! Additions to `#cloud-config` user data, on its text: a YAML round trip would lose comments,
//! quoting and order. What the text form of a list cannot take safely is refused, never guessed.

use std::fmt;

use serde_json::{Value, json};

/// A `#cloud-config` document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    lines: Vec<String>,
    line_end: &'static str,
}

/// Why a text cannot be edited as `#cloud-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudConfigError {
    /// The user data is something else: a script, a MIME archive, a template.
    NotCloudConfig {
        /// How it begins.
        begins: String,
    },
    /// The key holds something that no item can be added to.
    NotAList {
        /// The key.
        key: String,
        /// Its line, from 1.
        line: usize,
    },
    /// The key is there twice.
    Ambiguous {
        /// The key.
        key: String,
    },
}

impl fmt::Display for CloudConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloudConfigError::NotCloudConfig { begins } => {
                write!(
                    f,
                    "the user data is no #cloud-config document: it begins with {begins:?}"
                )
            }
            CloudConfigError::NotAList { key, line } => {
                write!(
                    f,
                    "user data, line {line}: {key} is no list that an item can be added to"
                )
            }
            CloudConfigError::Ambiguous { key } => write!(f, "the user data has {key} twice"),
        }
    }
}

impl std::error::Error for CloudConfigError {}

/// How a top-level key holds its items.
enum List {
    Missing,
    /// Items, if any, in lines after the key: the key's line, their indentation, the line after.
    Block {
        key: usize,
        indent: usize,
        end: usize,
    },
    /// `key: [a, b]` on one line: where the `]` is, and whether there is something before it.
    Flow {
        line: usize,
        close: usize,
        empty: bool,
    },
}

impl CloudConfig {
    /// Reads `#cloud-config` user data; nothing at all counts as an empty document.
    pub fn parse(user_data: &str) -> Result<CloudConfig, CloudConfigError> {
        let line_end = if user_data
            .split('\n')
            .next()
            .is_some_and(|line| line.ends_with('\r'))
        {
            "\r\n"
        } else {
            "\n"
        };
        let mut lines: Vec<String> = user_data.lines().map(str::to_owned).collect();
        match lines.first() {
            None => lines.push("#cloud-config".to_owned()),
            Some(first) if first.trim_end() == "#cloud-config" => {}
            Some(first) => {
                let begins = first.chars().take(40).collect();
                return Err(CloudConfigError::NotCloudConfig { begins });
            }
        }
        Ok(CloudConfig { lines, line_end })
    }

    /// The document as text.
    pub fn render(&self) -> String {
        self.lines
            .iter()
            .fold(String::new(), |text, line| text + line + self.line_end)
    }

    /// Adds a command to `runcmd`: a program and its arguments, run without a shell.
    pub fn add_run_command<'a>(
        &mut self,
        command: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), CloudConfigError> {
        self.add("runcmd", &Value::from_iter(command))
    }

    /// Adds a file to `write_files`; `permissions` as in `0644`.
    pub fn add_file(
        &mut self,
        path: &str,
        permissions: &str,
        content: &str,
    ) -> Result<(), CloudConfigError> {
        self.add(
            "write_files",
            &json!({"path": path, "permissions": permissions, "content": content}),
        )
    }

    /// Adds an item to the list of a top-level key, unless the same item as written by an earlier
    /// addition is there. The key is added when it is missing.
    pub fn add(&mut self, key: &str, item: &Value) -> Result<(), CloudConfigError> {
        match self.find(key)? {
            List::Missing => {
                self.lines.push(format!("{key}:"));
                self.lines.extend(block_item(item, 2));
            }
            List::Block { key, indent, end } => {
                let added = block_item(item, indent);
                if !self.lines[key..end]
                    .windows(added.len())
                    .any(|lines| lines == added)
                {
                    self.lines.splice(end..end, added);
                }
            }
            List::Flow { line, close, empty } => {
                let added = item.to_string();
                let text = self.lines[line].as_bytes();
                if !text
                    .windows(added.len())
                    .any(|part| part == added.as_bytes())
                {
                    let separator = if empty { "" } else { ", " };
                    self.lines[line].insert_str(close, &format!("{separator}{added}"));
                }
            }
        }
        Ok(())
    }

    fn find(&self, key: &str) -> Result<List, CloudConfigError> {
        let mut found = self
            .lines
            .iter()
            .enumerate()
            .filter_map(|(at, line)| Some((at, value_of(line, key)?)));
        let Some((at, value)) = found.next() else {
            return self.end_of_mapping(key);
        };
        if found.next().is_some() {
            return Err(CloudConfigError::Ambiguous {
                key: key.to_owned(),
            });
        }
        let refuse = || CloudConfigError::NotAList {
            key: key.to_owned(),
            line: at + 1,
        };
        if value.is_empty() || value.starts_with('#') {
            return self.block(at).ok_or_else(refuse);
        }
        let start = self.lines[at].len() - value.len();
        let (close, empty) = flow_end(value).ok_or_else(refuse)?;
        Ok(List::Flow {
            line: at,
            close: start + close,
            empty,
        })
    }

    /// A key can be added only where the document's end is the end of its one mapping.
    fn end_of_mapping(&self, key: &str) -> Result<List, CloudConfigError> {
        let odd = self.lines.iter().enumerate().skip(1).find(|(at, line)| {
            let begins_document =
                line.trim_end() == "---" && self.lines[1..*at].iter().all(|line| is_idle(line));
            !begins_document
                && (line.starts_with(['{', '[', '%', '!', '|', '>'])
                    || line.starts_with("---")
                    || line.starts_with("..."))
        });
        match odd {
            Some((at, _)) => Err(CloudConfigError::NotAList {
                key: key.to_owned(),
                line: at + 1,
            }),
            None => Ok(List::Missing),
        }
    }

    /// The items in the lines after a key.
    fn block(&self, key: usize) -> Option<List> {
        let mut indent = None;
        let mut end = key + 1;
        for (at, line) in self.lines.iter().enumerate().skip(key + 1) {
            let depth = line.len() - line.trim_start_matches(' ').len();
            let item = line[depth..].starts_with("- ") || line[depth..].trim_end() == "-";
            match indent {
                _ if line.trim().is_empty() => continue,
                None if line.trim_start().starts_with('#') => continue,
                None if item => indent = Some(depth),
                None if depth == 0 => break,
                None => return None,
                Some(own) if depth > own || (depth == own && item) => {}
                Some(_) if line.trim_start().starts_with('#') => continue,
                Some(_) if depth == 0 => break,
                Some(_) => return None,
            }
            end = at + 1;
        }
        Some(List::Block {
            key,
            indent: indent.unwrap_or(2),
            end,
        })
    }
}

/// The value that stands on the line of a top-level key, if this is that line.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line
        .strip_prefix(key)
        .or_else(|| line.strip_prefix(&format!("\"{key}\"")))
        .or_else(|| line.strip_prefix(&format!("'{key}'")))?;
    let value = rest.trim_start_matches(' ').strip_prefix(':')?;
    (value.is_empty() || value.starts_with([' ', '\t'])).then(|| value.trim())
}

fn is_idle(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// Where a flow list closes, when it does on this line and nothing but a comment follows.
fn flow_end(value: &str) -> Option<(usize, bool)> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    let mut empty = true;
    for (at, c) in value.char_indices() {
        match (quote, c) {
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.checked_sub(1)?,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') => return None,
            (Some('"'), '\\') if !escaped => {
                escaped = true;
                continue;
            }
            (Some(open), _) if open == c && !escaped => quote = None,
            _ => {}
        }
        escaped = false;
        if at == 0 && c != '[' {
            return None;
        }
        if depth == 0 {
            let rest = value[at + 1..].trim();
            return (rest.is_empty() || rest.starts_with('#')).then_some((at, empty));
        }
        empty &= at == 0 || c == ' ';
    }
    None
}

/// An item as lines of a block list. JSON is YAML, so its values need no other form.
fn block_item(item: &Value, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    match item.as_object().filter(|members| !members.is_empty()) {
        None => vec![format!("{pad}- {item}")],
        Some(members) => {
            let lines = members.iter().enumerate().map(|(n, (name, value))| {
                let dash = if n == 0 { "- " } else { "  " };
                format!("{pad}{dash}{name}: {value}")
            });
            lines.collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn added(user_data: &str) -> Result<String, CloudConfigError> {
        let mut config = CloudConfig::parse(user_data)?;
        config.add_run_command(["touch", "/x"])?;
        let once = config.render();
        config.add_run_command(["touch", "/x"])?;
        assert_eq!(config.render(), once, "adding twice adds once");
        Ok(once)
    }

    #[test]
    fn an_item_joins_the_list_and_nothing_else_changes() {
        let before = "#cloud-config\n# mine\nruncmd:   # now\n  # first\n  - [a, b]\n  - |\n    #!/bin/sh\n    # last\n\n# the password\npassword: fedora\n";
        assert_eq!(
            added(before).unwrap(),
            before.replace("    # last\n", "    # last\n  - [\"touch\",\"/x\"]\n")
        );
    }

    #[test]
    fn a_missing_list_is_added_at_the_end() {
        let expected = "runcmd:\n  - [\"touch\",\"/x\"]\n";
        assert_eq!(added("").unwrap(), format!("#cloud-config\n{expected}"));
        assert_eq!(
            added("#cloud-config\npassword: x").unwrap(),
            format!("#cloud-config\npassword: x\n{expected}")
        );
        assert_eq!(
            added("#cloud-config\n---\na: 1\n").unwrap(),
            format!("#cloud-config\n---\na: 1\n{expected}")
        );
    }

    #[test]
    fn every_way_to_write_a_list_takes_an_item() {
        for (before, after) in [
            ("runcmd: [a]\n", "runcmd: [a, [\"touch\",\"/x\"]]\n"),
            (
                "runcmd: [ ]  # none\n",
                "runcmd: [ [\"touch\",\"/x\"]]  # none\n",
            ),
            (
                "runcmd: ['it''s ]', \"a\\\"]\"] # ]\n",
                "runcmd: ['it''s ]', \"a\\\"]\", [\"touch\",\"/x\"]] # ]\n",
            ),
            (
                "runcmd:\n- a\nx: 1\n",
                "runcmd:\n- a\n- [\"touch\",\"/x\"]\nx: 1\n",
            ),
            ("runcmd:\nx: 1\n", "runcmd:\n  - [\"touch\",\"/x\"]\nx: 1\n"),
            (
                "\"runcmd\" :\n    - a\n",
                "\"runcmd\" :\n    - a\n    - [\"touch\",\"/x\"]\n",
            ),
        ] {
            assert_eq!(
                added(&format!("#cloud-config\n{before}")).unwrap(),
                format!("#cloud-config\n{after}")
            );
        }
        assert_eq!(
            added("#cloud-config\r\nruncmd:\r\n  - a\r\n").unwrap(),
            "#cloud-config\r\nruncmd:\r\n  - a\r\n  - [\"touch\",\"/x\"]\r\n"
        );
    }

    #[test]
    fn what_cannot_take_an_item_safely_is_refused() {
        for bad in [
            "runcmd: x",
            "runcmd: &a\n  - b",
            "runcmd: [a,\n  b]",
            "runcmd: |\n  x",
            "runcmd:\n  a: b",
            "runcmd: {a: b}",
            "{a: b}",
            "a: 1\n---\nb: 1",
            "runcmd: [a] b",
            "runcmd:\n  - a\n b",
        ] {
            let error = added(&format!("#cloud-config\n{bad}\n")).unwrap_err();
            assert!(
                matches!(error, CloudConfigError::NotAList { .. }),
                "{bad}: {error}"
            );
        }
        assert!(matches!(
            added("#cloud-config\nruncmd:\nruncmd:\n"),
            Err(CloudConfigError::Ambiguous { .. })
        ));
        assert_eq!(
            added("#!/bin/sh\n").unwrap_err().to_string(),
            "the user data is no #cloud-config document: it begins with \"#!/bin/sh\""
        );
    }

    #[test]
    fn a_file_is_written_as_a_mapping() {
        let mut config = CloudConfig::parse("#cloud-config\n").unwrap();
        config.add_file("/etc/x", "0644", "a \"b\"\n").unwrap();
        assert_eq!(
            config.render(),
            "#cloud-config\nwrite_files:\n  - path: \"/etc/x\"\n    permissions: \"0644\"\n    content: \"a \\\"b\\\"\\n\"\n"
        );
    }
}
