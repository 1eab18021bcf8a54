//! Elements that libvirt reads once in their parent.
//!
//! Of two such elements libvirt reads only one, so a second one would hide the first from libvirt or from the checks of a
//! grant. The list is from libvirt's schema, and a test compares both.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use domain_xml::{Budget, Element};

use super::dangerous_set::local;

/// Lines of a parent and the children that it has once at most.
const LIST: &str = include_str!("read_once_elements.txt");

static SINGLE: LazyLock<HashMap<&str, HashSet<&str>>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let parts = lines.filter_map(|line| line.split_once(": "));
    parts
        .map(|(parent, children)| (parent, children.split(' ').collect()))
        .collect()
});

/// Whether libvirt reads one child of this name in this parent, by names without prefixes.
pub(super) fn is_read_once(parent: &str, child: &str) -> bool {
    SINGLE
        .get(parent)
        .is_some_and(|children| children.contains(child))
}

/// The first element of which its parent has two although libvirt reads one: the path of the parent, and the name.
pub(crate) fn first_twin(root: &Element, budget: &Budget<'_>) -> Option<(String, String)> {
    // Paths are made for what is reported alone: one for each open element would fill the memory.
    let mut parents: Vec<Parent<'_>> = Vec::new();
    let mut open = vec![(root, None)];
    while let Some((element, above)) = open.pop() {
        if !budget.spend(1) {
            return None;
        }
        let mut children = element.children().peekable();
        if children.peek().is_none() {
            continue;
        }
        let parent = Parent { element, above };
        if let Some(single) = SINGLE.get(local(element.name())) {
            let mut seen = HashSet::new();
            let names = element.children().map(|child| local(child.name()));
            let mut once = names.filter(|name| single.contains(name));
            if let Some(twin) = once.find(|name| !seen.insert(*name)) {
                return Some((parent.path(&parents), twin.to_owned()));
            }
        }
        parents.push(parent);
        let above = Some(parents.len() - 1);
        open.extend(children.map(|child| (child, above)));
    }
    None
}

/// An element with children, and the index of its own parent.
struct Parent<'a> {
    element: &'a Element,
    above: Option<usize>,
}

impl<'a> Parent<'a> {
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use domain_xml::Document;

    use super::*;
    use crate::policy::permission::libvirt_schema_reader;

    /// Elements of which libvirt reads several, although its schema has one: (parent, child).
    const SEVERAL: &[(&str, &str)] = &[];

    #[test]
    fn the_list_is_the_one_of_libvirts_schema() {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for ((path, child), count) in libvirt_schema_reader::read().counts {
            let parent = local(path.last().unwrap()).to_owned();
            let most = counts
                .entry((parent, local(&child).to_owned()))
                .or_default();
            *most = (*most).max(count);
        }
        let mut single: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((parent, child), count) in &counts {
            let several = SEVERAL.contains(&(parent.as_str(), child.as_str()));
            if *count == 1 && !several && child != "*" && parent != "*" {
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
        // Lists stay lists, in libvirt's schema and here.
        for ((parent, child), count) in counts {
            assert!(
                count == 1 || !is_read_once(&parent, &child),
                "{parent}/{child}"
            );
        }
    }

    #[test]
    fn twins_are_found_and_lists_are_none() {
        let twin = |inside: &str| {
            let xml = format!("<domain><devices>{inside}</devices></domain>");
            first_twin(Document::parse(&xml).unwrap().root(), &Budget::unlimited())
        };
        let disk = Some(("/domain/devices/disk".to_owned(), "driver".to_owned()));
        assert_eq!(
            twin("<disk><driver/><target/><driver type='raw'/></disk>"),
            disk
        );
        assert_eq!(
            twin("<disk><x:driver xmlns:x='u'/><driver type='raw'/></disk>"),
            disk
        );
        for child in ["backingStore", "source", "target", "readonly", "encryption"] {
            assert!(
                twin(&format!("<disk><{child}/><{child}/></disk>")).is_some(),
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
            assert_eq!(twin(&format!("<{list}/><{list}/>")), None, "{list}");
        }
    }

    /// One path for each child of an element with a name of 100 KB would take 200 MB.
    #[test]
    fn long_names_take_no_memory_for_each_child() {
        let name = "n".repeat(100_000);
        let xml = format!("<domain><{name}>{}</{name}></domain>", "<b/>".repeat(2000));
        let document = Document::parse(&xml).unwrap();
        let memory = allocation_counter::measure(|| {
            assert_eq!(first_twin(document.root(), &Budget::unlimited()), None);
        });
        assert!(memory.bytes_max < 1 << 20, "{memory:?}");
    }
}
