//! Changes of a device that are accepted or refused, and outputs that are not one device.

use super::*;
use crate::ConditionedPath;
use crate::policy::Layer;

const DISK: &str = "<disk type='file' device='disk'><source file='/a'/><target dev='sda' bus='scsi'/>\
    <driver name='qemu' type='raw'/><alias name='ua-data'/></disk>";

fn verify(before: &str, after: &str) -> Result<Vec<String>, String> {
    let device = AttachedDevice::parse(before).unwrap();
    let budget = Rc::new(Budget::unlimited());
    let verified = device.verify(after, &Grant::unlimited(), &budget);
    match verified {
        Ok((_, changes)) => Ok(changes.into_iter().map(|change| change.path).collect()),
        Err(Rejection::Invalid(message)) => Err(message),
        Err(Rejection::NotGranted(_)) => Err("not granted".to_owned()),
    }
}

fn refusal(from: &str, to: &str) -> String {
    let after = DISK.replace(from, to);
    assert_ne!(after, DISK);
    verify(DISK, &after).unwrap_err()
}

#[test]
fn changes_have_paths_in_a_domain() {
    let tuned = DISK.replace("type='raw'", "type='raw' queues='4'");
    let paths = verify(DISK, &tuned).unwrap();
    assert_eq!(
        paths,
        ["/domain/devices/disk[target/@dev='sda']/driver/@queues"]
    );
    assert_eq!(verify(DISK, DISK).unwrap(), [""; 0]);
}

#[test]
fn patterns_with_a_position_among_the_devices_grant_nothing() {
    let tuned = DISK.replace("type='raw'", "type='raw' queues='4'");
    let device = AttachedDevice::parse(DISK).unwrap();
    for (pattern, is_granted) in [
        ("/domain/devices/disk[1]/driver/@queues", false),
        ("/domain/devices/*[1]/driver/@queues", false),
        ("/domain/**/disk[1]/driver/@queues", false),
        ("/domain/devices/disk/driver[1]/@queues", true),
        ("/domain/devices[1]/disk/driver/@queues", true),
        (
            "/domain/devices/disk[target/@dev='sda']/driver/@queues",
            true,
        ),
    ] {
        let grant = Grant::new(vec![Layer::new(
            vec![ConditionedPath::parse(pattern).unwrap()],
            "wishes",
        )]);
        let budget = Rc::new(Budget::unlimited());
        let verified = device.verify(&tuned, &grant, &budget);
        assert_eq!(verified.is_ok(), is_granted, "{pattern}");
    }
}

#[test]
fn the_identity_of_a_device_may_not_change() {
    for (from, to, path) in [
        ("file='/a'", "file='/b'", "disk/source"),
        ("<source file='/a'/>", "", "disk/source"),
        ("'sda'", "'sdb'", "disk/target"),
        ("'scsi'", "'virtio'", "disk/target"),
        ("ua-data", "ua-other", "disk/alias"),
        (
            "<driver",
            "<mac address='02:00:00:00:00:01'/><driver",
            "disk/mac",
        ),
        ("type='file'", "type='block'", "disk/@type"),
        ("device='disk'", "device='lun'", "disk/@device"),
        ("<disk type", "<disk mode='x' type", "disk/@mode"),
    ] {
        let error = refusal(from, to);
        assert!(
            error.starts_with(&format!("/domain/devices/{path} was ")),
            "{error}"
        );
    }
    let hostdev = "<hostdev mode='subsystem' type='pci'><source/></hostdev>";
    let error = verify(DISK, hostdev).unwrap_err();
    assert!(error.contains("was <disk> and is <hostdev>"), "{error}");
}

#[test]
fn output_that_is_not_one_device_is_refused() {
    assert!(refusal("</disk>", "").contains("malformed XML"));
    assert!(refusal(DISK, " ").contains("empty device XML"));
    assert!(refusal(DISK, "<controller/>").contains("the root element is <controller>"));
    let twice = DISK.replace("<driver", "<driver type='x'/><driver");
    assert!(
        verify(DISK, &twice)
            .unwrap_err()
            .contains("several <driver>")
    );
}
