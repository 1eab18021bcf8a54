//! Candidates for a pattern that would permit a refused change.

use domain_xml::host::{Change, Part, Place};

/// Patterns for a node of a change, from the narrowest to the widest that names the node; then patterns for the
/// inserted or removed element that contains the node.
pub(super) fn candidates(path: &str, change: &str) -> Vec<String> {
    let mut candidates = vec![path.to_owned(), format!("{path}/**")];
    let bare = without_predicates(path);
    if bare != path {
        candidates.extend([bare.clone(), format!("{bare}/**")]);
    }
    // Nothing is below an attribute.
    if bare.contains('@') {
        candidates.retain(|candidate| !candidate.ends_with("/**"));
    }
    let is_inside = path.strip_prefix(change);
    if is_inside.is_some_and(|rest| rest.starts_with('/')) {
        candidates.push(format!("{change}/**"));
        candidates.push(format!("{}/**", without_predicates(change)));
        candidates.dedup();
    }
    candidates
}

fn without_predicates(path: &str) -> String {
    outside_predicates(path).map(|(_, c)| c).collect()
}

/// The path without its last step. A `/` in a predicate does not end a step.
pub(super) fn parent(path: &str) -> &str {
    let slash = outside_predicates(path).filter(|(_, c)| *c == '/').last();
    &path[..slash.map_or(0, |(at, _)| at)]
}

/// The paths of the element that a change is of, or whose attribute the change is of, and of its ancestors, inner before
/// outer.
pub(super) fn ancestry<'a>(change: &'a Change, place: &Place) -> impl Iterator<Item = &'a str> {
    let element = match place.part {
        Part::Attribute(_) => parent(&change.path),
        _ => change.path.as_str(),
    };
    std::iter::successors(Some(element), |path| Some(parent(path)))
        .take_while(|path| !path.is_empty())
}

/// The characters outside of predicates, with their offsets.
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
        let candidates_of_node = candidates(path, path);
        assert_eq!(
            candidates_of_node,
            [path, "/domain/devices/disk/driver/@io"]
        );
    }

    #[test]
    fn an_inserted_element_is_suggested_with_its_content() {
        let change = "/domain/devices/rng[@model='virtio']";
        let candidates_of_node = candidates(&format!("{change}/@model"), change);
        let expected = [
            "/domain/devices/rng[@model='virtio']/@model",
            "/domain/devices/rng/@model",
            "/domain/devices/rng[@model='virtio']/**",
            "/domain/devices/rng/**",
        ];
        assert_eq!(candidates_of_node, expected);
    }
}
