mod dangerous_set;
mod patterns;

use domain_xml::{ChangeKind, diff};

use super::*;

const DOMAIN: &str = "<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\
<name>ns_vm</name><uuid>u</uuid>\
<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt><other/></metadata>\
<os><boot dev='hd'/><boot dev='network'/></os>\
<devices><emulator>/usr/bin/qemu</emulator>\
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/a'/><target dev='vda'/><alias name='ua-a'/></disk>\
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/b'/><target dev='vdb'/><alias name='ua-b'/></disk>\
<hostdev><source><address bus='1'/></source></hostdev>\
<graphics type='vnc'/></devices></domain>";

/// The permission of each change between the documents.
fn verdicts(patterns: &[&str], before: &str, after: &str) -> Vec<Permission> {
    let parsed = patterns.iter().map(|p| PathPattern::parse(p).unwrap());
    let patterns: Vec<PathPattern> = parsed.collect();
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let changes = diff(&before, &after);
    assert!(!changes.is_empty());
    let mut checker = Checker::new(&patterns, &before, &after);
    changes.iter().map(|c| checker.permits(c)).collect()
}

fn granted(patterns: &[&str], before: &str, after: &str) -> bool {
    let verdicts = verdicts(patterns, before, after);
    verdicts
        .iter()
        .all(|v| matches!(v, Permission::Granted { .. }))
}

fn edit(from: &str, to: &str) -> String {
    let edited = DOMAIN.replacen(from, to, 1);
    assert_ne!(edited, DOMAIN, "{from}");
    edited
}

fn refusal(patterns: &[&str], from: &str, to: &str) -> Refusal {
    let verdicts = verdicts(patterns, DOMAIN, &edit(from, to));
    let refused = verdicts.into_iter().find_map(|verdict| match verdict {
        Permission::Refused(refusal) => Some(refusal),
        Permission::Granted { .. } => None,
    });
    refused.unwrap()
}

fn grants(patterns: &[&str], from: &str, to: &str) -> bool {
    granted(patterns, DOMAIN, &edit(from, to))
}

fn danger_kind(from: &str, to: &str) -> Option<DangerKind> {
    let (before, after) = (
        Document::parse(DOMAIN).unwrap(),
        Document::parse(&edit(from, to)).unwrap(),
    );
    let changes = diff(&before, &after);
    changes.iter().find_map(|c| dangerous(c, &before, &after))
}

const VDA: &str = "/domain/devices/disk[target/@dev='vda']";

#[test]
fn reordered_children_need_a_pattern_for_the_parent() {
    let (from, to) = (
        "<boot dev='hd'/><boot dev='network'/>",
        "<boot dev='network'/><boot dev='hd'/>",
    );
    assert!(grants(&["/domain/os"], from, to));
    assert!(grants(&["/domain/os/**"], from, to));
    let rejection = refusal(&["/domain/os/boot/**"], from, to);
    assert_eq!(
        (
            rejection.reason,
            rejection.path.as_str(),
            rejection.suggested_pattern.as_deref()
        ),
        (
            RefusalReason::ReorderedChildren,
            "/domain/os",
            Some("/domain/os")
        )
    );
    // A dangerous child must also be in a pattern by its name.
    let emulators = ["qemu", "other"].map(|name| format!("<emulator>/usr/bin/{name}</emulator>"));
    let of = |order: [&str; 2]| edit(&emulators[0], &order.concat());
    let before = of([&emulators[0], &emulators[1]]);
    let moved = of([&emulators[1], &emulators[0]]);
    assert!(!granted(&["/domain/devices/**"], &before, &moved));
    assert!(granted(
        &["/domain/devices/**", "/domain/devices/emulator"],
        &before,
        &moved
    ));
}

#[test]
fn no_pattern_permits_reserved_nodes() {
    let all = [
        "/domain/**",
        "/domain/name",
        "/domain/uuid",
        "/domain/metadata/kubevirt/**",
        "/domain/metadata/**",
        "**",
    ];
    for (from, to) in [
        ("ns_vm", "other"),
        ("<name>ns_vm</name>", ""),
        ("<uuid>", "<name>ns_vm</name><uuid>"),
        ("<uuid>", "<x:name xmlns:x='u'>ns_vm</x:name><uuid>"),
        ("<uuid>u", "<uuid>v"),
        ("<uuid>u", "<uuid><![CDATA[v]]>"),
        ("<uuid>u", "<uuid x='1'>u"),
        ("<uid>7", "<uid>8"),
        ("<metadata>", "<metadata><kubevirt/>"),
        (
            "<metadata>",
            "<metadata><x:evil xmlns:x='http://kubevirt.io'/>",
        ),
        ("<metadata>", "<metadata><evil xmlns='http://kubevirt.io'/>"),
        (
            "xmlns='http://kubevirt.io'",
            "xmlns='http://kubevirt.example'",
        ),
        ("<domain type='kvm'", "<x:domain xmlns:x='u'"),
    ] {
        let after = edit(from, to).replace(
            "</domain>",
            if to.contains("x:domain") {
                "</x:domain>"
            } else {
                "</domain>"
            },
        );
        assert!(!granted(&all, DOMAIN, &after), "{to}");
    }
    assert!(granted(&all, DOMAIN, &edit("<other/>", "<other x='1'/>")));
    let rejection = refusal(&all, "ns_vm", "other");
    assert_eq!(
        (rejection.reason, rejection.suggested_pattern),
        (RefusalReason::Reserved(ReservedNode::Name), None)
    );
    let refusal_of_metadata = refusal(
        &all,
        "<metadata><kubevirt xmlns='http://kubevirt.io'><uid>7</uid></kubevirt><other/></metadata>",
        "",
    );
    assert_eq!(
        refusal_of_metadata.reason,
        RefusalReason::Reserved(ReservedNode::Metadata)
    );
}

#[test]
fn removing_the_first_of_two_elements_that_libvirt_reads_once_changes_the_effective_one() {
    // The first <driver> has no format; without it, the second one's format counts.
    let (hiding, revealed) = (
        "<driver io='native'/><driver name='qemu' type='raw'/>",
        "<driver name='qemu' type='raw'/>",
    );
    let before = DOMAIN.replacen(revealed, hiding, 1);
    assert_ne!(before, DOMAIN);
    let all = ["/domain/devices/disk/driver/**"];
    let format = "/domain/devices/disk/driver/@type";
    assert!(!granted(&all, &before, DOMAIN));
    assert!(granted(&[all[0], format], &before, DOMAIN));
    // Elements of lists are matched by key: a new disk changes no other disk.
    let disk = "<disk><target dev='vdc'/></disk><hostdev>";
    assert!(grants(
        &["/domain/devices/disk[target/@dev='vdc']/**"],
        "<hostdev>",
        disk
    ));
}

#[test]
fn changes_without_a_diff_are_refused() {
    let document = Document::parse(DOMAIN).unwrap();
    let change_not_from_diff = Change::new(
        "/domain/os/@x",
        ChangeKind::Inserted,
        None,
        Some("1".into()),
    );
    let all = [PathPattern::parse("/domain/**").unwrap()];
    let Permission::Refused(rejection) = permits(&all, &change_not_from_diff, &document, &document)
    else {
        panic!("granted");
    };
    assert_eq!(rejection.reason, RefusalReason::NotInDiff);
    // Neither is a change of other documents.
    let (a, b) = (
        Document::parse("<a><b/></a>").unwrap(),
        Document::parse("<a><b/><c/><d x='1'/></a>").unwrap(),
    );
    let changes = diff(&a, &b);
    assert!(
        changes
            .iter()
            .any(|c| matches!(permits(&all, c, &b, &a), Permission::Refused(_)))
    );
}

/// Whether all changes are permitted; the check must not exceed the number of steps.
fn granted_within(patterns: &[&str], before: &str, after: &str, steps: u64) -> bool {
    let parsed = patterns.iter().map(|p| PathPattern::parse(p).unwrap());
    let patterns: Vec<PathPattern> = parsed.collect();
    let (before, after) = (
        Document::parse(before).unwrap(),
        Document::parse(after).unwrap(),
    );
    let budget = Rc::new(Budget::of_steps(steps));
    let changes = domain_xml::diff_within(&before, &after, &budget);
    assert!(!changes.is_empty());
    let mut checker = Checker::within(&patterns, &before, &after, Rc::clone(&budget));
    let granted = |change| matches!(checker.permits(change), Permission::Granted { .. });
    let all = changes.iter().all(granted);
    assert_eq!(budget.exhausted(), None);
    all
}

/// The steps of a check of all changes of one new element in an empty domain.
fn steps_of(patterns: &[&str], element: &str) -> u64 {
    let parsed = patterns.iter().map(|p| PathPattern::parse(p).unwrap());
    let patterns: Vec<PathPattern> = parsed.collect();
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
    let more = steps_of(&all, &element(1616)) - steps_of(&all, &element(16));
    // Each of 50 attributes is searched among 50 that have 100 times 16 bytes more.
    assert_eq!(more, 50 * 50 * 100);
}

#[test]
fn predicates_cost_the_bytes_that_they_read() {
    let deep = |name: &str, content: &str| {
        let (start, end) = (
            format!("<{name}>").repeat(40),
            format!("</{name}>").repeat(40),
        );
        format!("{start}{content}{end}")
    };
    let more = |pattern: &str, short: &str, long: &str| {
        steps_of(&[pattern, "/domain/**"], long) - steps_of(&[pattern, "/domain/**"], short)
    };
    // The innermost text is read for the predicates of its element, of the parent and of the grandparent.
    let text = more(
        "/domain/**/a[text()='v'][a='v'][a/a='v']/b",
        &deep("a", "v"),
        &deep("a", &format!("v{}", "&lt;".repeat(4000))),
    );
    assert_eq!(text, 3 * 1000);
    let tag = |value: &str| deep("a", &format!("<a x='{value}'/>"));
    let attributes = more(
        "/domain/**/a[@x='v'][a/@x='v']/b",
        &tag("v"),
        &tag(&format!("v{}", "x".repeat(16_000))),
    );
    // The attribute is read for its element's predicate, for the parent's predicate, and by the check of the dangerous set.
    assert_eq!(attributes, 3 * 1000);
    let named = |name: &str| deep("a", &format!("<{name}/>"));
    let names = more(
        "/domain/**/a[a/a/a='v']/b",
        &named("bb"),
        &named(&"b".repeat(16_002)),
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
    // Some ten steps for each of 15,000 elements.
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
