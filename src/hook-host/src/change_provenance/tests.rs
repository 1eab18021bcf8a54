//! Which hook last changed a path, which hook a libvirt error is about, and paths that several hooks changed.

use super::*;

fn provenance(edits: &[(&str, &str, &str)]) -> Provenance {
    let edit = |(hook, path, after): &(&str, &str, &str)| NodeEdit {
        hook: (*hook).to_owned(),
        path: (*path).to_owned(),
        after: Some((*after).to_owned()),
    };
    Provenance(edits.iter().map(edit).collect())
}

#[test]
fn last_touched_includes_changes_of_descendants_and_ancestors() {
    let disk = "/domain/devices/disk[target/@dev='vda']";
    let edits = provenance(&[
        ("a", &format!("{disk}/driver/@queues"), "4"),
        ("b", "/domain/devices/disk[target/@dev='vdb']", "<disk/>"),
        ("c", "/domain/title", "x"),
    ]);
    assert_eq!(edits.last_touched(disk), Some("a"));
    assert_eq!(edits.last_touched(&format!("{disk}/driver")), Some("a"));
    assert_eq!(edits.last_touched("/domain/devices"), Some("b"));
    assert_eq!(
        edits.last_touched("/domain/devices/disk[target/@dev='vdb']/source/@dev"),
        Some("b")
    );
    assert_eq!(edits.last_touched("/domain/titles"), None);
    assert_eq!(edits.last_touched("/domain"), Some("c"));
}

#[test]
fn values_and_names_in_a_libvirt_error_identify_the_hook() {
    let edits = provenance(&[
        (
            "a",
            "/domain/devices/disk[target/@dev='vda']/driver/@queues",
            "4",
        ),
        (
            "b",
            "/domain/devices/interface[mac/@address='x']/model/@type",
            "virtio-foo",
        ),
    ]);
    let text = "unsupported configuration: invalid model 'virtio-foo' for interface";
    assert_eq!(edits.hook_of_refusal(text).map(|(hook, _)| hook), Some("b"));
    let text = "XML error: Invalid value for attribute 'queues' in element 'driver'";
    assert_eq!(edits.hook_of_refusal(text).map(|(hook, _)| hook), Some("a"));
    assert_eq!(edits.hook_of_refusal("internal error: no memory"), None);
    assert_eq!(Provenance::default().hook_of_refusal("x"), None);
}

#[test]
fn the_budget_for_overlaps_is_linear_in_the_paths() {
    let paths: Vec<String> = (0..100_000).map(|n| format!("/domain/x[{n}]/@a")).collect();
    let edits = |hook: &'static str| paths.iter().map(move |path| (hook, path.as_str(), "1"));
    let all: Vec<_> = edits("a").chain(edits("b")).collect();
    let overlaps = provenance(&all).overlaps();
    assert_eq!(overlaps.len(), paths.len());
    assert!(overlaps.iter().all(|overlap| overlap.hooks == ["a", "b"]));
    // A path of 16 bytes costs two steps.
    let sufficient = Budget::of_steps(2 * all.len() as u64);
    provenance(&all).overlaps_within(&sufficient);
    assert_eq!(sufficient.exhausted(), None);
    let insufficient = Budget::of_steps(all.len() as u64);
    provenance(&all).overlaps_within(&insufficient);
    assert!(insufficient.exhausted().is_some());
}

#[test]
fn nodes_that_several_hooks_changed_are_overlaps() {
    let edits = provenance(&[
        ("a", "/domain/title", "1"),
        ("a", "/domain/title", "2"),
        ("b", "/domain/os/boot[2]", "<boot/>"),
        ("b", "/domain/title", "3"),
        ("c", "/domain/title", "4"),
        ("c", "/domain/os/boot[2]/@dev", "hd"),
        ("c", "/domain/titles", "4"),
    ]);
    let overlaps = edits.overlaps();
    assert_eq!(overlaps.len(), 2);
    assert_eq!(
        (
            overlaps[0].path.as_str(),
            overlaps[0].hooks.join(" ").as_str()
        ),
        ("/domain/title", "a b c")
    );
    assert_eq!(overlaps[1].hooks, ["b", "c"]);
}
