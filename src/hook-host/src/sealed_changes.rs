//! What final hooks changed: it is sealed for the hooks that run later.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use domain_xml::host::{Change, ChangeKind, Part};

/// A change of a final hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seal {
    /// The final hook.
    pub(crate) hook: String,
    /// File, line and column of the `final` in the operator's policy.
    pub(crate) rule: String,
    /// The path of the change; for cloud-init data the document, for a migration the parameter.
    pub(crate) path: String,
    pub(crate) kind: ChangeKind,
}

/// The changes of final hooks, searchable by path.
///
/// Paths are compared without the prefixes of attributes, and without the positions among like siblings, which shift when one of the siblings is inserted or
/// removed: elements that nothing but their position tells apart count as one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seals {
    seals: Vec<Seal>,
    /// The seals of each path without positions.
    by_path: HashMap<String, Vec<usize>>,
    /// The same paths in order, to find those below a path.
    paths: BTreeSet<String>,
    /// The seals about the order of the children of one name, by path without predicates in the last step.
    by_siblings: HashMap<String, usize>,
}

impl Seals {
    pub(crate) fn add(&mut self, seal: Seal) {
        let index = self.seals.len();
        let path = place(&seal.path);
        if matches!(seal.kind, ChangeKind::Moved | ChangeKind::Inserted) && !is_attribute(&path) {
            let siblings = siblings(&path).to_owned();
            self.by_siblings.entry(siblings).or_insert(index);
        }
        self.by_path.entry(path.clone()).or_default().push(index);
        self.paths.insert(path);
        self.seals.push(seal);
    }

    /// All seals in order.
    pub(crate) fn all(&self) -> &[Seal] {
        &self.seals
    }

    /// The first change of the hook that touches what another hook has sealed.
    pub(crate) fn first_broken<'a>(
        &'a self,
        hook: &str,
        changes: &'a [Change],
    ) -> Option<(&'a Seal, &'a Change)> {
        if self.seals.is_empty() {
            return None;
        }
        let mut changes = changes.iter();
        changes.find_map(|change| Some((self.broken_by(hook, change)?, change)))
    }

    fn broken_by(&self, hook: &str, change: &Change) -> Option<&Seal> {
        let path = place(&change.path);
        let is_whole = matches!(change.kind, ChangeKind::Inserted | ChangeKind::Removed)
            && !is_attribute(&path);
        let of_others = |indices: &[usize]| -> Vec<&Seal> {
            let seals = indices.iter().map(|index| &self.seals[*index]);
            seals.filter(|seal| seal.hook != hook).collect()
        };
        let at = |path: &str| of_others(self.by_path.get(path).map_or(&[], Vec::as_slice));
        if change
            .place()
            .is_some_and(|place| place.part == Part::Document)
        {
            return self.seals.iter().find(|seal| seal.hook != hook);
        }
        // Below an element that was inserted or removed as a whole, or whose text was edited: libvirt joins the texts of
        // all elements below it.
        let is_element = !is_attribute(&path);
        let covers = |seal: &&Seal| {
            !is_attribute(&seal.path)
                && match seal.kind {
                    ChangeKind::Inserted | ChangeKind::Removed => true,
                    ChangeKind::Edited => is_element,
                    ChangeKind::Moved => false,
                }
        };
        if let Some(seal) = ancestors(&path).flat_map(at).find(covers) {
            return Some(seal);
        }
        if change.kind == ChangeKind::Moved {
            let moved = self.by_siblings.get(siblings(&path));
            return moved.and_then(|index| of_others(&[*index]).pop());
        }
        // The same place. Two inserted siblings are two places, even if only their position tells them apart.
        let is_new_sibling = |seal: &Seal| {
            change.kind == ChangeKind::Inserted
                && seal.kind == ChangeKind::Inserted
                && seal.path != change.path
        };
        let is_same_place = |seal: &&Seal| seal.kind != ChangeKind::Moved && !is_new_sibling(seal);
        if let Some(seal) = at(&path).into_iter().find(is_same_place) {
            return Some(seal);
        }
        // An element that contains what was changed, or that was moved.
        if !is_whole {
            return None;
        }
        let moved = at(&path)
            .into_iter()
            .find(|seal| seal.kind == ChangeKind::Moved);
        moved.or_else(|| self.below(&path).flat_map(at).next())
    }

    /// The sealed paths below a path.
    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        ['/', '['].into_iter().flat_map(move |separator| {
            let prefix = format!("{path}{separator}");
            let from = self.paths.range(prefix.clone()..);
            from.map(String::as_str)
                .take_while(move |sealed| sealed.starts_with(&prefix))
        })
    }
}

/// The path by which changes are compared: without positions, and without the prefix of an attribute, which libvirt
/// ignores.
fn place(path: &str) -> String {
    let mut place = without_positions(path);
    if is_attribute(&place)
        && let Some(name) = place.rfind("/@").map(|slash| slash + 2)
        && let Some(colon) = place[name..].find(':')
    {
        place.replace_range(name..=name + colon, "");
    }
    place
}

/// The path without predicates that are positions, such as `[2]`.
fn without_positions(path: &str) -> String {
    let mut stripped = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(open) = rest.find('[') {
        let (before, predicate) = rest.split_at(open);
        stripped.push_str(before);
        let digits = predicate[1..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        rest = match predicate.as_bytes().get(1 + digits) {
            Some(b']') if digits > 0 => &predicate[digits + 2..],
            _ => {
                stripped.push('[');
                &predicate[1..]
            }
        };
    }
    stripped + rest
}

/// The path without the predicates of its last step: that of all siblings of its name.
fn siblings(path: &str) -> &str {
    let mut depth = 0_usize;
    let mut end = path.len();
    // From the end, the first bracket that opens the outermost predicate of the last step.
    for (index, byte) in path.bytes().enumerate().rev() {
        match byte {
            b']' => depth += 1,
            b'[' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    end = index;
                }
            }
            b'/' if depth == 0 => break,
            _ => {}
        }
    }
    &path[..end]
}

/// Whether the last step of the path is an attribute.
fn is_attribute(path: &str) -> bool {
    path.rfind("/@").is_some_and(|at| !path[at..].contains(']'))
}

/// The beginnings of a path that end before a step or a predicate.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices(['/', '[']).map(|(index, _)| index);
    ends.filter(|end| *end > 0).map(|end| &path[..end])
}
