//! Edits beside the disk that is the module's only wish.

use super::*;

const DESCRIPTION: &str = r#"{"name": "vda", "hookPoints": [{"name": "OnDefineDomain"}],
    "wishes": {"paths": ["/domain/devices/disk[target/@dev='vda']/**"]}}"#;

/// Texts, each of which is replaced once by the other.
type Replacements = &'static [(&'static str, &'static str)];

/// The name of an edit, the path or reason in its refusal, and what it replaces.
const EDITS: &[(&str, &str, Replacements)] = &[
    (
        "another target before the disk's",
        "/domain/devices/disk has several <target>",
        &[(
            "<target bus=\"virtio\" dev=\"vda\"/>",
            "<target bus=\"virtio\" dev=\"vdz\"/><target bus=\"virtio\" dev=\"vda\"/>",
        )],
    ),
    (
        "another target after the disk's",
        "/domain/devices/disk has several <target>",
        &[(
            "<target bus=\"virtio\" dev=\"vda\"/>",
            "<target bus=\"virtio\" dev=\"vda\"/><target bus=\"virtio\" dev=\"vdz\"/>",
        )],
    ),
    (
        "a second disk of the name",
        "/domain/devices/disk[1]",
        &[(
            "<memballoon",
            "<disk><target dev=\"vda\"/></disk><memballoon",
        )],
    ),
    (
        "the other disk's alias",
        "/domain/devices/disk[target/@dev='vdb']/alias/@name",
        &[("ua-ci", "x")],
    ),
    (
        "a target of another namespace in the other disk",
        "/domain/devices/disk has several <target>",
        &[
            (
                "<target bus=\"virtio\" dev=\"vdb\"/>",
                "<target bus=\"virtio\" dev=\"vdb\"/><x:target xmlns:x=\"urn:q\" dev=\"vda\"/>",
            ),
            ("ua-ci", "x"),
        ],
    ),
    (
        "a second driver before the disk's",
        "/domain/devices/disk has several <driver>",
        &[(
            "<driver error_policy=\"stop\" name=\"qemu\" type=\"qcow2\"",
            "<driver cache=\"none\"/><driver error_policy=\"stop\" name=\"qemu\" type=\"qcow2\"",
        )],
    ),
    (
        "the other disk renamed with a reference",
        "/domain/devices/disk[target/@dev='vdb']",
        &[("dev=\"vdb\"", "dev=\"vd&#97;\""), ("ua-ci", "x")],
    ),
    (
        "the other disk renamed with a blank",
        "/domain/devices/disk[target/@dev='vdb']",
        &[("dev=\"vdb\"", "dev=\"vda \""), ("ua-ci", "x")],
    ),
    (
        "the disks' names exchanged for one",
        "/domain/devices/disk[target/@dev='vdb']",
        &[
            ("dev=\"vda\"", "dev=\"vdq\""),
            ("dev=\"vdb\"", "dev=\"vda\""),
        ],
    ),
];

#[tokio::test]
async fn nothing_beside_the_disk_of_the_wish_is_changed() {
    let chain = chain_of(DESCRIPTION).await;
    for (name, refused, edits) in EDITS {
        let answer = edits.iter().fold(BASE.to_owned(), |xml, (from, to)| {
            assert!(xml.contains(from), "{name}: {from}");
            xml.replacen(from, to, 1)
        });
        let defined = define(&chain, &answer).await;
        let Err(error) = defined else {
            panic!("{name} is permitted: {:?}", defined.unwrap().1[0].changes);
        };
        let place = place(error);
        assert!(place.contains(refused), "{name}: {place}");
    }
    // The order of the disks is not theirs.
    let swapped = {
        let (before, rest) = BASE.split_once("<disk").unwrap();
        let (first, rest) = rest.split_once("</disk>").unwrap();
        let (between, rest) = rest.split_once("<disk").unwrap();
        let (second, after) = rest.split_once("</disk>").unwrap();
        format!("{before}<disk{second}</disk>{between}<disk{first}</disk>{after}")
    };
    let error = define(&chain, &swapped).await.unwrap_err();
    assert_eq!(place(error), "/domain/devices");
    // What the wish names is permitted, and a disk in a disk, which libvirt does not read.
    let nested = BASE.replacen(
        "<alias name=\"ua-root\"/>",
        "<alias name=\"ua-root\"/><disk><target dev=\"vda\"/></disk>",
        1,
    );
    let (_, runs) = define(&chain, &nested).await.unwrap();
    let of_the_disk = "/domain/devices/disk[target/@dev='vda']/";
    let mut paths = runs[0].changes.iter().map(|change| &change.path);
    assert!(paths.all(|path| path.starts_with(of_the_disk)));
    let tuned = BASE.replacen("discard=\"unmap\"", "discard=\"ignore\"", 1);
    define(&chain, &tuned).await.unwrap();
}
