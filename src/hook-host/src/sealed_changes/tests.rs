//! Which changes touch what a final hook changed.

use domain_xml::host::ChangeKind::{Edited, Inserted, Moved, Removed};

use super::*;

fn seal(path: &str, kind: ChangeKind) -> Seal {
    Seal {
        hook: "enforce".to_owned(),
        rule: "p.yaml:3:5".to_owned(),
        path: path.to_owned(),
        kind,
    }
}

fn is_broken(sealed: (&str, ChangeKind), change: (&str, ChangeKind)) -> bool {
    let mut seals = Seals::default();
    seals.add(seal("/domain/unrelated", Edited));
    seals.add(seal(sealed.0, sealed.1));
    let changes = [
        Change::new("/domain/other", Edited, None, None),
        Change::new(change.0, change.1, None, None),
    ];
    assert!(seals.first_broken("enforce", &changes).is_none());
    let broken = seals.first_broken("zz", &changes);
    if let Some((seal, change)) = broken {
        assert_eq!(seal.path, sealed.0);
        assert_eq!(*change, changes[1]);
    }
    broken.is_some()
}

const DISK: &str = "/domain/devices/disk[target/@dev='vda']";

#[test]
fn changes_of_a_sealed_place_are_found() {
    let queues = format!("{DISK}/driver/@queues");
    let driver = format!("{DISK}/driver");
    for (sealed, change) in [
        (("/domain/title", Inserted), ("/domain/title", Edited)),
        (("/domain/title", Inserted), ("/domain/title", Removed)),
        (("/domain/title", Removed), ("/domain/title", Inserted)),
        (("/domain/title", Edited), ("/domain/title", Edited)),
        (("/domain/title", Edited), ("/domain/title", Removed)),
        // Below an element that was inserted, or removed and is there again.
        (
            ("/domain/os", Inserted),
            ("/domain/os/smbios/@mode", Edited),
        ),
        (("/domain/os", Inserted), ("/domain/os/smbios", Inserted)),
        ((DISK, Inserted), (&driver, Inserted)),
        ((DISK, Inserted), (&queues, Inserted)),
        (
            ("/domain/os", Inserted),
            ("/domain/os/boot[@dev='hd']", Moved),
        ),
        // libvirt joins the texts of all elements below an element whose text was edited.
        (("/domain/vcpu", Edited), ("/domain/vcpu/x", Inserted)),
        (("/domain/vcpu", Edited), ("/domain/vcpu/x", Removed)),
        (("/domain/vcpu", Edited), ("/domain/vcpu/x/y", Edited)),
        (("/domain/vcpu", Edited), ("/domain/vcpu/x", Moved)),
        (("/domain/title", Edited), ("/domain/title/x[2]", Inserted)),
        // libvirt ignores the prefix of an attribute.
        (
            (&queues, Removed),
            (&format!("{driver}/@x:queues"), Inserted),
        ),
        // The element around it is removed, or made again.
        ((&queues, Edited), (DISK, Removed)),
        ((&queues, Removed), (&driver, Inserted)),
        ((&driver, Inserted), (DISK, Removed)),
        ((DISK, Edited), ("/domain/devices", Removed)),
        // Attributes.
        ((&queues, Inserted), (&queues, Removed)),
        ((&queues, Removed), (&queues, Inserted)),
        // Positions shift.
        (
            ("/domain/devices/hostdev[2]", Removed),
            ("/domain/devices/hostdev[3]", Inserted),
        ),
        (
            ("/domain/devices/hostdev[2]/@managed", Edited),
            ("/domain/devices/hostdev[1]/@managed", Edited),
        ),
        (
            ("/domain/devices/hostdev[1]", Inserted),
            ("/domain/devices/hostdev", Removed),
        ),
        // Order.
        (("/domain/os/boot[2]", Moved), ("/domain/os/boot[1]", Moved)),
        (
            ("/domain/os/boot[2]", Inserted),
            ("/domain/os/boot[1]", Moved),
        ),
        (
            ("/domain/os/boot[2]", Moved),
            ("/domain/os/boot[1]", Removed),
        ),
        // Documents of cloud-init, and parameters of a migration.
        (("user-data", Edited), ("user-data", Edited)),
        (("bandwidth", Edited), ("bandwidth", Edited)),
    ] {
        assert!(is_broken(sealed, change), "{sealed:?} {change:?}");
    }
}

#[test]
fn other_changes_break_no_seal() {
    let queues = format!("{DISK}/driver/@queues");
    let cache = format!("{DISK}/driver/@cache");
    for (sealed, change) in [
        (("/domain/title", Inserted), ("/domain/titles", Edited)),
        (("/domain/os", Edited), ("/domain/os/type/@machine", Edited)),
        (("/domain/vcpu", Edited), ("/domain/vcpu/@cpuset", Edited)),
        (
            ("/domain/vcpu/@cpuset", Edited),
            ("/domain/vcpu/x", Inserted),
        ),
        ((&queues, Edited), (&cache, Edited)),
        (
            (&queues, Edited),
            (
                "/domain/devices/disk[target/@dev='vdb']/driver/@queues",
                Edited,
            ),
        ),
        (
            (DISK, Removed),
            ("/domain/devices/disk[target/@dev='vdb']", Inserted),
        ),
        (
            (DISK, Inserted),
            ("/domain/devices/disk[target/@dev='vdb']", Inserted),
        ),
        (
            ("/domain/devices/hostdev[1]", Inserted),
            ("/domain/devices/hostdev[2]", Inserted),
        ),
        (
            ("/domain/os/boot[2]", Moved),
            ("/domain/os/boot[2]/@dev", Edited),
        ),
        (
            ("/domain/os/boot[2]", Moved),
            ("/domain/devices/disk[2]", Moved),
        ),
        (
            ("/domain/metadata/@a", Inserted),
            ("/domain/metadata/a", Inserted),
        ),
        (("user-data", Edited), ("meta-data", Edited)),
    ] {
        assert!(!is_broken(sealed, change), "{sealed:?} {change:?}");
    }
}

#[test]
fn a_path_with_brackets_and_slashes_in_a_value_is_one_place() {
    let odd = "/domain/devices/disk[source/@file='/a[2]/b]']";
    let below = format!("{odd}/@x");
    assert!(is_broken((odd, Inserted), (&below, Inserted)));
    assert!(is_broken((&below, Inserted), (odd, Removed)));
    assert!(!is_broken(
        (odd, Inserted),
        ("/domain/devices/disk[source/@file='/a']", Inserted)
    ));
}
