//! Elements that libvirt reads once in their parent.
//!
//! Of two such elements libvirt reads only one, so that the other one would be visible to the checks of a grant and not
//! to libvirt. The list is from libvirt's schema, and a test compares both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use domain_xml::Element;
use domain_xml::host::Budget;

use super::dangerous_set::local;

/// Lines of the form `PARENT: CHILD CHILD...`.
const LIST: &str = include_str!("read_once_elements.txt");

/// The names of the children that libvirt reads once, by the name of the parent.
static READ_ONCE: LazyLock<HashMap<&str, HashSet<&str>>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let parts = lines.filter_map(|line| line.split_once(": "));
    parts
        .map(|(parent, children)| (parent, children.split(' ').collect()))
        .collect()
});

/// Whether libvirt reads only one child of this name in this parent. The names have no prefixes.
pub(super) fn is_read_once(parent: &str, child: &str) -> bool {
    READ_ONCE
        .get(parent)
        .is_some_and(|children| children.contains(child))
}

/// A second or further element of one name in one parent, of which libvirt reads only one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Duplicate {
    /// The path of the parent, without predicates.
    pub(crate) parent: String,
    pub(crate) name: String,
}

/// Finds elements that stand beside the one that libvirt reads. A spent budget ends the search; the caller then discards the result.
pub(crate) fn duplicates<'a>(
    root: &'a Element,
    budget: &'a Budget<'_>,
) -> impl Iterator<Item = Duplicate> + 'a {
    // Only the paths of duplicates are built, and those of one parent at a time: a path for each open element would fill
    // the memory.
    let mut parents: Vec<Parent<'a>> = Vec::new();
    let mut open = vec![(root, None)];
    let mut of_last_parent: Vec<(Duplicate, usize)> = Vec::new();
    std::iter::from_fn(move || {
        loop {
            if let Some((duplicate, count)) = of_last_parent.last_mut() {
                let duplicate = duplicate.clone();
                *count -= 1;
                if *count == 0 {
                    of_last_parent.pop();
                }
                return budget
                    .spend_text(duplicate.parent.len())
                    .then_some(duplicate);
            }
            let (element, above) = open.pop()?;
            if !budget.spend(1) {
                return None;
            }
            let mut children = element.children().peekable();
            if children.peek().is_none() {
                continue;
            }
            let parent = Parent { element, above };
            for (name, count) in parent.counts_of_duplicates() {
                let duplicate = Duplicate {
                    parent: parent.path(&parents),
                    name: name.to_owned(),
                };
                of_last_parent.push((duplicate, count));
            }
            parents.push(parent);
            let above = Some(parents.len() - 1);
            open.extend(children.map(|child| (child, above)));
        }
    })
}

/// An element with children.
struct Parent<'a> {
    element: &'a Element,
    /// The index of the parent, in the list of all parents.
    above: Option<usize>,
}

impl<'a> Parent<'a> {
    /// The names of children that libvirt reads once and that are there several times, with the number of those that it
    /// does not read.
    fn counts_of_duplicates(&self) -> impl Iterator<Item = (&'a str, usize)> + use<'a> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        if let Some(read_once) = READ_ONCE.get(local(self.element.tag_name())) {
            let names = self.element.children().map(|child| local(child.tag_name()));
            for name in names.filter(|name| read_once.contains(name)) {
                *counts.entry(name).or_default() += 1;
            }
        }
        let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
        repeated.map(|(name, count)| (name, count - 1))
    }

    fn path(&self, parents: &[Parent<'a>]) -> String {
        let mut names = Vec::new();
        let mut next = Some(self);
        while let Some(parent) = next {
            names.push(parent.element.canonical_name());
            next = parent.above.and_then(|index| parents.get(index));
        }
        names.push("");
        names.reverse();
        names.join("/")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use domain_xml::Document;

    use super::*;
    use crate::policy::permission::libvirt_schema_for_tests;

    /// Parents and children of which libvirt reads several children, although its schema has one.
    const SCHEMA_EXCEPTIONS: &[(&str, &str)] = &[];

    #[test]
    fn the_list_is_equal_to_libvirts_schema() {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for ((path, child), count) in libvirt_schema_for_tests::read().counts {
            let parent = local(path.last().unwrap()).to_owned();
            let max_count = counts
                .entry((parent, local(&child).to_owned()))
                .or_default();
            *max_count = (*max_count).max(count);
        }
        let mut single: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((parent, child), count) in &counts {
            let is_exception = SCHEMA_EXCEPTIONS.contains(&(parent.as_str(), child.as_str()));
            if *count == 1 && !is_exception && child != "*" && parent != "*" {
                single.entry(parent).or_default().insert(child);
            }
        }
        let list: String = single
            .iter()
            .map(|(parent, children)| {
                let children: Vec<&str> = children.iter().copied().collect();
                format!("{parent}: {}\n", children.join(" "))
            })
            .collect();
        if let Ok(path) = std::env::var("SINGLE_ELEMENTS_OUT") {
            std::fs::write(path, &list).unwrap();
        }
        let missing: Vec<String> = single
            .iter()
            .flat_map(|(parent, children)| children.iter().map(move |child| (*parent, *child)))
            .filter(|(parent, child)| !is_read_once(parent, child))
            .map(|(parent, child)| format!("{parent}/{child}"))
            .collect();
        assert_eq!(
            missing,
            Vec::<String>::new(),
            "add them to read_once_elements.txt"
        );
        // Elements that the schema permits several times are not in the list.
        for ((parent, child), count) in counts {
            assert!(
                count == 1 || !is_read_once(&parent, &child),
                "{parent}/{child}"
            );
        }
    }

    #[test]
    fn duplicates_are_found_and_lists_are_not_duplicates() {
        let duplicate = |inside: &str| {
            let xml = format!("<domain><devices>{inside}</devices></domain>");
            let (document, budget) = (Document::parse(&xml).unwrap(), Budget::unlimited());
            duplicates(document.root(), &budget).next()
        };
        let disk = Some(Duplicate {
            parent: "/domain/devices/disk".to_owned(),
            name: "driver".to_owned(),
        });
        assert_eq!(
            duplicate("<disk><driver/><target/><driver type='raw'/></disk>"),
            disk
        );
        assert_eq!(
            duplicate("<disk><x:driver xmlns:x='u'/><driver type='raw'/></disk>"),
            disk
        );
        for child in ["backingStore", "source", "target", "readonly", "encryption"] {
            assert!(
                duplicate(&format!("<disk><{child}/><{child}/></disk>")).is_some(),
                "{child}"
            );
        }
        for list in [
            "disk",
            "interface",
            "hostdev",
            "channel",
            "controller",
            "serial",
        ] {
            assert_eq!(duplicate(&format!("<{list}/><{list}/>")), None, "{list}");
        }
    }

    /// One path for each child of an element with a name of 100 KB would take 200 MB.
    #[test]
    fn long_names_take_no_memory_for_each_child() {
        let name = "n".repeat(100_000);
        let xml = format!("<domain><{name}>{}</{name}></domain>", "<b/>".repeat(2000));
        let document = Document::parse(&xml).unwrap();
        let memory = allocation_counter::measure(|| {
            assert_eq!(
                duplicates(document.root(), &Budget::unlimited()).next(),
                None
            );
        });
        assert!(memory.bytes_max < 1 << 20, "{memory:?}");
    }
}
