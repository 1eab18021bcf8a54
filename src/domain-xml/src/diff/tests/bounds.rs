//! Hostile documents: bounded time and memory.

use super::*;

#[test]
fn diffs_of_hostile_input_are_bounded() {
    let key = "k".repeat(128);
    let nest = |value: &str| {
        let open: String = (0..100).map(|_| format!("<n name='{key}'>")).collect();
        let leaves: String = (0..20_000)
            .map(|n| format!("<l a='{value}{n}'/>"))
            .collect();
        format!("<domain>{open}{leaves}{}</domain>", "</n>".repeat(100))
    };
    let (before, after) = (
        Document::parse(&nest("x")).unwrap(),
        Document::parse(&nest("y")).unwrap(),
    );
    let changes = diff(&before, &after);
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].path.as_str(), changes[0].kind),
        ("/domain", ChangeKind::Edited)
    );
}

/// Each path has the long name in it: without a limit the diffs would take 200 MB.
#[test]
fn a_diff_stops_before_its_text_fills_the_memory() {
    let name = "n".repeat(100_000);
    let document = |inside: &str| {
        let xml = format!("<domain><{name} {inside}</{name}></domain>");
        Document::parse(&xml).unwrap()
    };
    let empty = document(">");
    let attributes: String = (0..250).map(|index| format!("a{index}='' ")).collect();
    let namespace = "u".repeat(1000);
    let namespaced = format!("xmlns:x='{namespace}'>{}", "<b x:a=''/>".repeat(2000));
    for full in [
        document(&format!(">{}", "<b/>".repeat(2000))),
        document(&format!("{attributes}>")),
        document(&namespaced),
    ] {
        for (before, after) in [(&empty, &full), (&full, &empty)] {
            let memory = allocation_counter::measure(|| {
                let changes = diff(before, after);
                assert!(!changes.is_empty());
            });
            assert!(memory.bytes_max < 32 << 20, "{memory:?}");
        }
    }
}
