#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use super::*;

#[tokio::test]
async fn late_network_information_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("network-info");
    // On a busy machine the file may come too late now and then.
    for _ in 0..20 {
        fs::write(&file, "").unwrap();
        let kubelet = async {
            tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL * 3).await;
            fs::write(&file, r#"{"interfaces":[]}"#).unwrap();
        };
        let wait = async {
            wait_for_network_info(&file).await.unwrap();
            network_info::network_info(&file).is_some()
        };
        let (is_there, ()) = tokio::join!(wait, kubelet);
        if is_there {
            return;
        }
    }
    panic!("not waited for");
}

#[tokio::test]
async fn empty_network_information_is_not_waited_for_for_ever() {
    let file = tempfile::NamedTempFile::new().unwrap();
    wait_for_network_info(file.path()).await.unwrap();
}

#[tokio::test]
async fn only_block_devices_are_block_volumes() {
    let claim = |volume: &str, block: &str, image: Option<&str>| VolumeModeLookup {
        volume: volume.into(),
        block_path: block.into(),
        image_path: image.map(str::to_owned),
    };
    let claims = vec![
        claim("none", "/nonexistent", Some("/nonexistent")),
        claim("character", "/dev/null", None),
        claim("file", "/etc/passwd", None),
        claim("image", "/nonexistent", Some("/etc/passwd")),
        claim("directory", "/nonexistent", Some("/etc")),
    ];
    let facts = with_volume_modes(HostFacts::default(), claims)
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
