//! Tests of the written cloud-init image and its errors.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use domain::cloud_init::read;
use kubevirt_api::vmi::Vmi;

use super::*;
use crate::mounted_secrets::MountedSecrets;

fn data(user_data: &str) -> CloudInitData {
    let vmi = format!(
        r#"{{"metadata":{{"name":"vm","namespace":"ns"}},"spec":{{"volumes":[
            {{"name":"ci","cloudInitNoCloud":{{"userData":"{user_data}"}}}}]}}}}"#
    );
    let vmi = Vmi::from_json(vmi.as_bytes()).unwrap();
    read(&vmi, &MountedSecrets("/nonexistent".into()))
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn image_replaces_an_older_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ns/vm/noCloud.iso");
    write(&data("first"), &path, 0).await.unwrap();
    write(&data("second"), &path, 3 << 20).await.unwrap();
    let image = fs::read(&path).unwrap();
    assert_eq!(
        image.len(),
        3 << 20,
        "min_bytes, the size of the source's image"
    );
    let holds = |text: &str| {
        image
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("second") && holds("\"local-hostname\":\"vm\"") && !holds("first"));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, IMAGE_ATTRS.mode);
    assert_eq!(metadata.uid(), atomic_file::tests::expected_owner());
}

#[tokio::test]
async fn error_contains_the_path_of_a_directory_that_cannot_be_created() {
    let error = write(&data("x"), Path::new("/proc/none/noCloud.iso"), 0)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("/proc/none/noCloud.iso"),
        "{error}"
    );
}
