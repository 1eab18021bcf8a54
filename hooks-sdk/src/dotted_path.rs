//! Paths into JSON and YAML: names joined by dots, `[0]` for an item of a list, `['a.b/c']` for a
//! name with dots, `[name=root]` for the item of a list with that member.

/// One level of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<'p> {
    /// `name`, `['name']`
    Member(&'p str),
    /// `[0]`
    Item(usize),
    /// `[name=root]`
    Where(&'p str, &'p str),
}

/// The steps of a path; `None` if it is invalid.
pub(crate) fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = bracketed(inside)?;
            found.push(step);
            rest = after;
            continue;
        }
        if !found.is_empty() {
            rest = rest.strip_prefix('.')?;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            return None;
        }
        found.push(Step::Member(&rest[..end]));
        rest = &rest[end..];
    }
    Some(found)
}

/// The text between brackets, and the rest of the path.
fn bracketed(inside: &str) -> Option<(Step<'_>, &str)> {
    if let Some(quote) = inside.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = inside[1..].split_once(quote)?;
        return Some((Step::Member(name), rest.strip_prefix(']')?));
    }
    let (selector, rest) = inside.split_once(']')?;
    let step = match selector.split_once('=') {
        Some((name, value)) => Step::Where(name, value.trim_matches(['\'', '"'])),
        None => Step::Item(selector.parse().ok()?),
    };
    Some((step, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_steps() {
        let member = |name| Step::Member(name);
        assert_eq!(
            steps("spec.volumes[name=root].x['a.b/c'][2]"),
            Some(vec![
                member("spec"),
                member("volumes"),
                Step::Where("name", "root"),
                member("x"),
                member("a.b/c"),
                Step::Item(2)
            ])
        );
        assert_eq!(steps("['a.b'].c"), Some(vec![member("a.b"), member("c")]));
        assert_eq!(steps(""), Some(vec![]));
        for bad in ["a..b", "a.", ".a", "a[", "a['b", "a[x]", "a[0]b", "a['b'"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
    }
}
