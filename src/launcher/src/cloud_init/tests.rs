#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use domain::cloud_init::{SecretSource, read};
use domain::vmi::Vmi;

use super::*;

fn data(user_data: &str) -> CloudInitData {
    let vmi = format!(
        r#"{{"metadata":{{"name":"vm","namespace":"ns"}},"spec":{{"volumes":[
            {{"name":"ci","cloudInitNoCloud":{{"userData":"{user_data}"}}}}]}}}}"#
    );
    let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
    read(&vmi, &SecretDirectory("/nonexistent".into()))
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn an_image_replaces_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ns/vm/noCloud.iso");
    write_iso(&data("first"), &path).await.unwrap();
    write_iso(&data("second"), &path).await.unwrap();
    let image = fs::read(&path).unwrap();
    assert_eq!(image.len() as u64, ALIGNMENT);
    let holds = |text: &str| {
        image
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("second") && holds("\"local-hostname\":\"vm\"") && !holds("first"));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, IMAGE.mode);
    if rustix::process::geteuid().is_root() {
        assert_eq!(metadata.uid(), crate::places::QEMU_USER);
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let error = write_iso(&data("x"), Path::new("/proc/none/noCloud.iso"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("/proc/none/noCloud.iso"),
        "{error}"
    );
}

#[test]
fn secrets_as_the_kubelet_mounts_them() {
    let root = tempfile::tempdir().unwrap();
    let mount = root.path().join("ci");
    fs::create_dir_all(mount.join("..2026")).unwrap();
    fs::write(mount.join("..2026/userdata"), "secret").unwrap();
    symlink("..2026", mount.join("..data")).unwrap();
    symlink("..data/userdata", mount.join("userdata")).unwrap();
    fs::write(mount.join("large"), vec![0; 1024 * 1024 + 1]).unwrap();
    let secrets = SecretDirectory(root.path().to_owned());
    assert_eq!(secrets.names("ci").unwrap(), ["large", "userdata"]);
    assert_eq!(secrets.file("ci", "userdata").unwrap().unwrap(), b"secret");
    assert_eq!(secrets.file("ci", "userData").unwrap(), None);
    assert!(
        secrets
            .file("ci", "large")
            .unwrap_err()
            .contains("mebibyte")
    );
    assert!(secrets.names("gone").unwrap_err().contains("gone"));
    for name in ["../ci", "", "/etc"] {
        assert!(secrets.file(name, "passwd").is_err());
    }
}
