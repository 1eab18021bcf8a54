//! Hostile documents: bounded time and memory.

use super::*;

#[test]
fn diff_of_untrusted_input_is_bounded() {
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

/// Each of the siblings before is compared with several after, whose texts are read each time.
#[test]
fn the_comparison_of_siblings_costs_the_bytes_that_it_reads() {
    let document = |value: &str, text: &str| {
        let siblings: String = (0..8).map(|n| format!("<x>{value}{n}{text}</x>")).collect();
        Document::parse(&format!("<domain>{siblings}</domain>")).unwrap()
    };
    let before = document("a", "");
    let is_enough = |steps: u64, text: &str| {
        let budget = Budget::of_steps(steps);
        diff_within(&before, &document("b", text), &budget);
        budget.exhausted().is_none()
    };
    assert!(is_enough(1000, ""));
    let long = "c".repeat(16_000);
    assert!(!is_enough(8 * 8 * 1000, &long));
    assert!(is_enough(8 * 8 * 1000 + 1000, &long));
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

/// A hook may return 50,000 elements: as disks, each new one and each edited one is a change of its own.
#[test]
fn changes_of_fifty_thousand_elements_are_reported_one_by_one() {
    const DISKS: usize = 50_000 / 3;
    let document = |io: &str| {
        let disks: String = (0..DISKS)
            .map(|number| {
                format!(
                    "<disk type='block' device='disk'><target dev='vd{number}' bus='virtio'/>\
                     <driver name='qemu' cache='none' io='{io}'/></disk>"
                )
            })
            .collect();
        Document::parse(&format!("<domain><devices>{disks}</devices></domain>")).unwrap()
    };
    let empty = Document::parse("<domain><devices/></domain>").unwrap();
    let (native, threads) = (document("native"), document("threads"));
    assert_eq!(diff(&empty, &native).len(), DISKS);
    assert_eq!(diff(&native, &threads).len(), DISKS);
}
