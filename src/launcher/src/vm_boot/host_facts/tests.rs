//! Tests of host facts: network information, volume modes, devices and CPUs.
use std::collections::BTreeSet;

use domain::convert::VolumeModeLookup;

use super::network_info::NETWORK_INFO_POLL_INTERVAL;
use super::*;

#[tokio::test]
async fn late_network_information_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("network-info");
    // Repeated, since on a busy machine the file may sometimes be written too late.
    for _ in 0..20 {
        fs::write(&file, "").unwrap();
        let kubelet = async {
            tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL * 3).await;
            fs::write(&file, r#"{"interfaces":[]}"#).unwrap();
        };
        let wait = async {
            wait_for_network_info(&file).await.unwrap();
            network_info::read_network_info(&file).is_some()
        };
        let (is_there, ()) = tokio::join!(wait, kubelet);
        if is_there {
            return;
        }
    }
    panic!("not waited for");
}

#[tokio::test]
async fn wait_for_network_information_has_a_timeout() {
    let file = tempfile::NamedTempFile::new().unwrap();
    wait_for_network_info(file.path()).await.unwrap();
}

#[tokio::test]
async fn only_block_devices_are_block_volumes() {
    let lookup = |volume: &str, block: &str, image: Option<&str>| VolumeModeLookup {
        volume: volume.into(),
        block_path: block.into(),
        image_path: image.map(str::to_owned),
    };
    let lookups = vec![
        lookup("none", "/nonexistent", Some("/nonexistent")),
        lookup("character", "/dev/null", None),
        lookup("file", "/etc/passwd", None),
        lookup("image", "/nonexistent", Some("/etc/passwd")),
        lookup("directory", "/nonexistent", Some("/etc")),
    ];
    let facts = with_volume_modes(HostFacts::default(), lookups)
        .await
        .unwrap();
    assert_eq!(facts.block_volumes, BTreeSet::new());
    assert_eq!(facts.image_volumes, ["image".to_owned()].into());
}

#[test]
fn regular_file_is_not_a_device() {
    assert!(is_usable(Path::new("/dev/null")));
    assert!(!is_usable(Path::new("/etc/passwd")));
    assert!(!is_usable(Path::new("/nonexistent")));
}

#[test]
fn cpuset_is_not_empty() {
    assert!(!cpuset().is_empty());
}
