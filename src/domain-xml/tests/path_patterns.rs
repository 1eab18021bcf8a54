//! Properties of path patterns.
#![allow(clippy::unwrap_used, missing_docs)]

use domain_xml::{Document, Element, PathPattern};
use proptest::prelude::*;

/// A step, with a simple implementation to compare with.
#[derive(Debug, Clone)]
enum Step {
    Descend,
    Any,
    Named(&'static str, Option<Condition>),
}

#[derive(Debug, Clone)]
enum Condition {
    Position(usize),
    Has(&'static str),
    Is(&'static str, &'static str),
    Child(&'static str, &'static str, &'static str),
}

const NAMES: &[&str] = &["a", "b", "c"];
const KEYS: &[&str] = &["k", "l"];
const VALUES: &[&str] = &["1", "2", "it's"];

fn condition() -> impl Strategy<Value = Condition> {
    let key = prop::sample::select(KEYS);
    let (name, value) = (prop::sample::select(NAMES), prop::sample::select(VALUES));
    prop_oneof![
        (1..4usize).prop_map(Condition::Position),
        key.clone().prop_map(Condition::Has),
        (key.clone(), value.clone()).prop_map(|(key, value)| Condition::Is(key, value)),
        (name, key, value).prop_map(|(name, key, value)| Condition::Child(name, key, value)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let named = (prop::sample::select(NAMES), prop::option::of(condition()));
    prop_oneof![
        1 => Just(Step::Descend),
        1 => Just(Step::Any),
        4 => named.prop_map(|(name, condition)| Step::Named(name, condition)),
    ]
}

fn written(steps: &[Step]) -> String {
    let quoted = |value: &str| match value.contains('\'') {
        true => format!("\"{value}\""),
        false => format!("'{value}'"),
    };
    let write = |step: &Step| match step {
        Step::Descend => "**".to_owned(),
        Step::Any => "*".to_owned(),
        Step::Named(name, None) => (*name).to_owned(),
        Step::Named(name, Some(condition)) => match condition {
            Condition::Position(n) => format!("{name}[{n}]"),
            Condition::Has(key) => format!("{name}[@{key}]"),
            Condition::Is(key, value) => format!("{name}[@{key}={}]", quoted(value)),
            Condition::Child(child, key, value) => {
                format!("{name}[{child}/@{key}={}]", quoted(value))
            }
        },
    };
    steps.iter().map(write).collect::<Vec<_>>().join("/")
}

/// A simple implementation of selection: step by step, on sets of elements.
fn selected<'a>(steps: &[Step], from: Vec<&'a Element>) -> Vec<&'a Element> {
    let Some((step, rest)) = steps.split_first() else {
        return from;
    };
    let mut next: Vec<&Element> = Vec::new();
    let mut add = |element: &'a Element| {
        if !next.iter().any(|known| std::ptr::eq(*known, element)) {
            next.push(element);
        }
    };
    for element in from {
        match step {
            Step::Descend => element
                .find_all("**")
                .unwrap()
                .into_iter()
                .for_each(&mut add),
            Step::Any => element.children().for_each(&mut add),
            Step::Named(name, condition) => {
                let named = element.children().filter(|child| child.is(name));
                named
                    .enumerate()
                    .filter(|(n, child)| holds(condition, n + 1, child))
                    .for_each(|(_, child)| add(child));
            }
        }
    }
    selected(rest, next)
}

fn holds(condition: &Option<Condition>, position: usize, element: &Element) -> bool {
    match condition {
        None => true,
        Some(Condition::Position(n)) => *n == position,
        Some(Condition::Has(key)) => element.attr(key).is_some(),
        Some(Condition::Is(key, value)) => element.attr(key).as_deref() == Some(*value),
        Some(Condition::Child(name, key, value)) => {
            let mut children = element.children().filter(|child| child.is(name));
            children.any(|child| child.attr(key).as_deref() == Some(*value))
        }
    }
}

fn tree() -> impl Strategy<Value = Element> {
    let attribute = (prop::sample::select(KEYS), prop::sample::select(VALUES));
    let leaf =
        (prop::sample::select(NAMES), prop::option::of(attribute)).prop_map(|(name, attribute)| {
            match attribute {
                Some((key, value)) => Element::new(name).with_attr(key, value),
                None => Element::new(name),
            }
        });
    leaf.prop_recursive(4, 40, 5, |inner| {
        let children = prop::collection::vec(inner, 0..5);
        (prop::sample::select(NAMES), children).prop_map(|(name, children)| {
            children
                .into_iter()
                .fold(Element::new(name), Element::with_child)
        })
    })
}

fn same(a: &[&Element], b: &[&Element]) -> bool {
    a.len() == b.len() && a.iter().all(|a| b.iter().any(|b| std::ptr::eq(*a, *b)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_path_selects_what_a_plain_reading_selects(steps in prop::collection::vec(step(), 1..6), root in tree()) {
        let path = written(&steps);
        let pattern = PathPattern::parse(&path).unwrap();
        let (found, expected) = (pattern.find_all(&root), selected(&steps, vec![&root]));
        prop_assert!(same(&found, &expected), "{}: {:?} not {:?}", path, found, expected);
        // An absolute path begins with the root itself.
        let holder = Element::new("holder").with_child(root.clone());
        let absolute = PathPattern::parse(&format!("/holder/{path}")).unwrap();
        let below = holder.children().next().unwrap();
        let above = selected(&steps, vec![&holder]);
        prop_assert!(same(&absolute.find_all(&holder), &above), "/holder/{} {:?}", path, below);
    }

    #[test]
    fn a_path_reads_back_as_it_was_written(steps in prop::collection::vec(step(), 1..8)) {
        let path = written(&steps);
        let pattern = PathPattern::parse(&path).unwrap();
        prop_assert_eq!(pattern.to_string(), path.clone());
        prop_assert_eq!(path.parse::<PathPattern>().unwrap(), pattern);
    }

    #[test]
    fn a_damaged_path_is_refused_at_a_column_of_it(steps in prop::collection::vec(step(), 1..6), at in any::<prop::sample::Index>(), put in "[/\\[\\]@*='\"a ]{0,2}") {
        let mut path = written(&steps);
        let at = at.index(path.len());
        path.replace_range(at..=at, &put);
        match PathPattern::parse(&path) {
            Ok(pattern) => prop_assert_eq!(pattern.as_str(), path),
            Err(error) => {
                prop_assert!(error.column >= 1 && error.column <= path.chars().count() + 1);
                prop_assert_eq!(error.path, path);
            }
        }
    }

    #[test]
    fn ensured_paths_are_found(steps in prop::collection::vec(step(), 1..5), root in tree()) {
        let path = written(&steps);
        let mut document = Document::new(root);
        if document.ensure(&path).is_ok() {
            prop_assert!(document.find(&path).unwrap().is_some(), "{}", path);
            let once = document.render();
            document.ensure(&path).unwrap();
            prop_assert_eq!(document.render(), once);
        }
    }

    #[test]
    fn removed_paths_are_not_found(steps in prop::collection::vec(step(), 1..5), root in tree()) {
        let path = written(&steps);
        let mut document = Document::new(root);
        let count = document.find_all("**").unwrap().len();
        let removed = document.root_mut().remove(&path).unwrap();
        prop_assert!(document.find_all("**").unwrap().len() <= count - removed);
    }
}

const DISKS: &str = "<domain type='kvm'><name>vm</name><devices><disk/></devices></domain>";

#[test]
fn an_absolute_path_with_another_root_is_an_error() {
    let mut domain = Document::parse(DISKS).unwrap();
    for path in ["/devices/disk", "/other/name", "/name/@x"] {
        let root = domain.root_mut();
        let errors = [
            root.find(path).unwrap_err(),
            root.find_all(path).unwrap_err(),
            root.value(path).unwrap_err(),
            root.values(path).unwrap_err(),
            root.find_mut(path).unwrap_err(),
            root.set_if_absent(path, "a").unwrap_err(),
            root.remove(path).unwrap_err(),
        ];
        for error in errors {
            let expected = "the element is <domain>, not what the path begins with";
            assert!(error.to_string().ends_with(expected), "{error}");
        }
    }
    for path in ["/*/none", "/**/none", "/domain[@type='x']/name"] {
        assert_eq!(domain.root_mut().remove(path), Ok(0), "{path}");
    }
    assert_eq!(domain.render(), DISKS);
}
