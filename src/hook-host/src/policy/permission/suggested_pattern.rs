//! Patterns that might permit a refused change.

/// From the narrowest to the widest that still names the place.
pub(super) fn candidates(path: &str) -> Vec<String> {
    let bare = outside_predicates(path).map(|(_, c)| c).collect::<String>();
    let mut found = vec![path.to_owned(), format!("{path}/**")];
    if bare != path {
        found.extend([bare.clone(), format!("{bare}/**")]);
    }
    // Nothing is below an attribute.
    let is_attribute = bare.contains('@');
    found.retain(|candidate| !(is_attribute && candidate.ends_with("/**")));
    found
}

/// The path without its last step; a `/` may stand in a predicate.
pub(super) fn parent(path: &str) -> &str {
    let slash = outside_predicates(path).filter(|(_, c)| *c == '/').last();
    &path[..slash.map_or(0, |(at, _)| at)]
}

fn outside_predicates(path: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    let mut inside = false;
    path.char_indices().filter(move |(_, c)| {
        let was_inside = inside;
        match (quote, *c) {
            (Some(open), _) => quote = quote.filter(|_| *c != open),
            (None, '\'' | '"') => quote = Some(*c),
            (None, '[') => inside = true,
            (None, ']') => inside = false,
            _ => {}
        }
        !was_inside && !inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slash_in_a_predicate_does_not_end_a_step() {
        let path = "/domain/devices/disk[target/@dev='a]/b'][x=\"'/\"]/driver/@io";
        assert_eq!(parent(path), &path[..path.len() - 4]);
        assert_eq!(parent(parent(parent(path))), "/domain/devices");
        let candidates = candidates(path);
        assert_eq!(candidates, [path, "/domain/devices/disk/driver/@io"]);
    }
}
