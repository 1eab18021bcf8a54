//! Entries of a block mapping: their keys, the lines of their values, and what kind of value each is.

/// Lines that hold the entries of a block mapping, and how far they are indented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappingLines {
    pub(super) begin: usize,
    /// The line after the last.
    pub(super) end: usize,
    pub(super) indent: usize,
}

/// The kind of value in the lines after `key:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Nothing,
    List(MappingLines),
    Mapping(MappingLines),
    /// A multi-line text, or invalid YAML.
    Other,
}

pub(super) fn depth(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether the item of a list at `indent` goes on in the lines after its first.
pub(super) fn continues_list(after: &[String], indent: usize) -> bool {
    let next = after.iter().find(|line| !is_idle(line));
    next.is_some_and(|line| depth(line) > indent)
}

fn is_item(line: &str) -> bool {
    let text = line.trim_start_matches(' ');
    text.starts_with("- ") || text.trim_end() == "-"
}

pub(super) fn is_idle(line: &str) -> bool {
    let text = line.trim();
    text.is_empty() || text.starts_with('#')
}

/// The value in the lines after a key on line `key` that is indented by `indent`.
pub(super) fn value_below(lines: &[String], key: usize, indent: usize) -> ValueKind {
    let after = key + 1;
    let begin = lines[after..].iter().position(|line| !is_idle(line));
    let Some(begin) = begin.map(|at| after + at) else {
        return ValueKind::Nothing;
    };
    let (key_depth, list) = (depth(&lines[begin]), is_item(&lines[begin]));
    if key_depth < indent || (key_depth == indent && !list) {
        return ValueKind::Nothing;
    }
    if !list && split_key(&lines[begin][key_depth..]).is_none() {
        return ValueKind::Other;
    }
    let mut end = begin + 1;
    for (at, line) in lines.iter().enumerate().skip(begin + 1) {
        let depth = depth(line);
        if line.trim().is_empty() || (is_idle(line) && depth <= key_depth) {
            continue;
        }
        // A list may have the same indentation as its key.
        if depth > key_depth || (depth == key_depth && (!list || is_item(line))) {
            end = at + 1;
        } else if depth <= indent {
            break;
        } else {
            return ValueKind::Other;
        }
    }
    let scope = MappingLines {
        begin: after,
        end,
        indent: key_depth,
    };
    if list {
        ValueKind::List(scope)
    } else {
        ValueKind::Mapping(scope)
    }
}

/// The line after the value of the key on line `key`, whatever the value is.
pub(super) fn end_of_value(lines: &[String], key: usize, indent: usize) -> usize {
    if let ValueKind::List(scope) | ValueKind::Mapping(scope) = value_below(lines, key, indent) {
        return scope.end;
    }
    let mut end = key + 1;
    for (at, line) in lines.iter().enumerate().skip(key + 1) {
        if line.trim().is_empty() {
            continue;
        }
        if depth(line) <= indent {
            break;
        }
        end = at + 1;
    }
    end
}

/// The key that a line without its indentation begins with, unquoted, and where its value begins.
pub(super) fn split_key(line: &str) -> Option<(&str, usize)> {
    let (key, rest) = match line.chars().next()? {
        quote @ ('"' | '\'') => line[1..].split_once(quote)?,
        '-' if line[1..].starts_with([' ', '\r']) || line.len() == 1 => return None,
        '#' | '[' | '{' | '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | '?' => return None,
        _ => {
            let at = key_end(line)?;
            (line[..at].trim_end(), &line[at..])
        }
    };
    let after = rest.trim_start_matches(' ').strip_prefix(':')?;
    if !after.is_empty() && !after.starts_with([' ', '\t', '\r']) {
        return None;
    }
    let value = after.trim_start();
    Some((key, line.len() - value.len()))
}

/// The first colon that ends a plain key.
fn key_end(line: &str) -> Option<usize> {
    let mut places = line.match_indices(':');
    places
        .find(|(at, _)| {
            matches!(
                line.as_bytes().get(at + 1),
                None | Some(b' ' | b'\t' | b'\r')
            )
        })
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinguished_from_similar_text() {
        assert_eq!(split_key("a: b"), Some(("a", 3)));
        assert_eq!(split_key("'a b' :"), Some(("a b", 7)));
        assert_eq!(split_key("a:b: c"), Some(("a:b", 5)));
        assert_eq!(split_key("-a: c"), Some(("-a", 4)));
        for no in ["- a: b", "a", "a:b", "#a: b", "{a: b}", "\"a", "? a", ""] {
            assert_eq!(split_key(no), None, "{no}");
        }
    }
}
