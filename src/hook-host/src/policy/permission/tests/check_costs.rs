//! The steps of the budget that a check costs.

use super::*;

/// Whether all changes are permitted. Panics if the check takes more than this number of steps.
fn granted_within(patterns: &[&str], before: &str, after: &str, steps: u64) -> bool {
    let patterns = paths(patterns);
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let budget = Rc::new(Budget::of_steps(steps));
    let changes = domain_xml::host::diff_within(&before, &after, &budget);
    assert!(!changes.is_empty());
    let mut checker = Checker::within(&patterns, &before, &after, Rc::clone(&budget));
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    let all_granted = changes.iter().all(granted);
    assert_eq!(budget.exhausted(), None);
    all_granted
}

/// The number of steps of a check of one new element in an empty domain.
fn steps_of(patterns: &[&str], element: &str) -> u64 {
    let patterns = paths(patterns);
    let before = Document::parse("<domain/>").unwrap();
    let after = Document::parse(&format!("<domain>{element}</domain>")).unwrap();
    let changes = diff(&before, &after);
    let is_enough = |steps: u64| {
        let budget = Rc::new(Budget::of_steps(steps));
        let mut checker = Checker::within(&patterns, &before, &after, Rc::clone(&budget));
        for change in &changes {
            checker.permits(change);
        }
        budget.exhausted().is_none()
    };
    let (mut low, mut high) = (0, 1 << 32);
    while low < high {
        let middle = (low + high) / 2;
        match is_enough(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

#[test]
fn the_search_for_an_attribute_costs_the_bytes_of_its_tag() {
    let element = |bytes: usize| {
        let attribute = |n| format!(" a{n:02}='{}'", "x".repeat(bytes));
        let attributes: String = (0..50).map(attribute).collect();
        format!("<a{attributes}/>")
    };
    let all = ["/domain/**"];
    let additional_steps = steps_of(&all, &element(1616)) - steps_of(&all, &element(16));
    // Each of 50 attributes is searched among 50 attributes, each of which has 100 times 16 bytes more.
    assert_eq!(additional_steps, 50 * 50 * 100);
}

#[test]
fn predicates_cost_the_bytes_that_they_read() {
    let nested = |name: &str, content: &str| {
        let (start, end) = (
            format!("<{name}>").repeat(40),
            format!("</{name}>").repeat(40),
        );
        format!("{start}{content}{end}")
    };
    let additional_steps = |pattern: &str, short: &str, long: &str| {
        steps_of(&[pattern, "/domain/**"], long) - steps_of(&[pattern, "/domain/**"], short)
    };
    // The innermost text is read for the predicates of its element, of the parent and of the grandparent.
    let text = additional_steps(
        "/domain/**/a[text()='v'][a='v'][a/a='v']/b",
        &nested("a", "v"),
        &nested("a", &format!("v{}", "&lt;".repeat(4000))),
    );
    assert_eq!(text, 3 * 1000);
    let element_with_attribute = |value: &str| nested("a", &format!("<a x='{value}'/>"));
    let attributes = additional_steps(
        "/domain/**/a[@x='v'][a/@x='v']/b",
        &element_with_attribute("v"),
        &element_with_attribute(&format!("v{}", "x".repeat(16_000))),
    );
    // The attribute is read for the predicates of its element and of the parent, and by the check of the dangerous set.
    assert_eq!(attributes, 3 * 1000);
    let element_of_name = |name: &str| nested("a", &format!("<{name}/>"));
    let names = additional_steps(
        "/domain/**/a[a/a/a='v']/b",
        &element_of_name("bb"),
        &element_of_name(&"b".repeat(16_002)),
    );
    assert!(names >= 1000, "{names}");
}

#[test]
fn check_of_large_documents_is_linear() {
    let list = |value: &str| {
        let disks: String = (0..5_000)
            .map(|n| format!("<disk><target dev='v{n}'/><driver io='{value}'/></disk>"))
            .collect();
        format!("<domain><devices>{disks}</devices></domain>")
    };
    // About ten steps for each of 15,000 elements.
    assert!(granted_within(
        &[
            "/domain/devices/disk[1]/**",
            "/domain/devices/disk[target]/driver/@io"
        ],
        &list("a"),
        &list("b"),
        150_000
    ));
    let deep = "<n>".repeat(100) + &"<m/>".repeat(20_000) + &"</n>".repeat(100);
    let deep = format!("<domain>{deep}</domain>");
    assert!(granted_within(
        &["/domain/n/**"],
        "<domain/>",
        &deep,
        100_000
    ));
    assert!(!granted_within(
        &["/domain/n/**/n"],
        "<domain/>",
        &deep,
        100_000
    ));
}
