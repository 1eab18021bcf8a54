//! Tests of host facts: network information, volume modes, devices and CPUs.

use std::collections::BTreeSet;
use std::fs;

use domain::convert::VolumeModeLookup;

use super::NETWORK_INFO_POLL_INTERVAL;
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
            read_network_info(&file).is_some()
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

fn volume(path: &str, is_block: bool) -> BlockSizeLookup {
    BlockSizeLookup {
        path: path.into(),
        is_block,
    }
}

#[test]
fn files_have_sizes_and_other_paths_give_errors() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("disk.img");
    fs::write(&file, "").unwrap();
    let sizes = read_block_sizes(&volume(file.to_str().unwrap(), false)).unwrap();
    assert!(sizes.logical.is_power_of_two() && sizes.logical == sizes.physical);
    let problem = read_block_sizes(&volume("/nonexistent", false)).unwrap_err();
    assert!(problem.contains("/nonexistent"), "{problem}");
    let problem = read_block_sizes(&volume("/dev/null", true)).unwrap_err();
    assert!(problem.contains("not a block device"), "{problem}");
}

#[test]
fn cgroup_v2_is_read_before_cgroup_v1() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = Sysfs::at(root.path());
    assert_eq!(cgroup_cpus(&sysfs), [0u32; 0]);
    let v1 = root.path().join("fs/cgroup/cpuset");
    fs::create_dir_all(&v1).unwrap();
    fs::write(v1.join("cpuset.cpus"), "4-5\n").unwrap();
    assert_eq!(cgroup_cpus(&sysfs), [4, 5]);
    let v2 = root.path().join("fs/cgroup/cpuset.cpus.effective");
    fs::write(v2, "6\n").unwrap();
    assert_eq!(cgroup_cpus(&sysfs), [6]);
}

#[test]
fn empty_network_information_is_not_malformed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let parse = |text: &str| {
        fs::write(file.path(), text).unwrap();
        parse_network_info(file.path())
    };
    assert!(parse("").is_none());
    assert!(parse("\n").is_none());
    assert!(parse("{").unwrap().is_err());
    assert!(!has_network_info(file.path()));
    assert!(parse(r#"{"interfaces":[]}"#).unwrap().is_ok());
    assert!(has_network_info(file.path()));
}
