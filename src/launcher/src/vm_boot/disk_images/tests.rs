//! Tests of disk images with the installed qemu-img, and of the probe for driver modes.

mod invalid_images_and_qemu_img_limits;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use domain::driver_modes::DirectIoProbe;
use domain::required_files::RequiredFile;
use kubevirt_api::vmi::Vmi;

use super::container_disk_inspection::inspect;
use super::*;

const GIB: u64 = 1 << 30;

fn tools() -> DiskTools {
    DiskTools::new(2_097_152_000)
}

fn qemu_img(arguments: &[&str]) {
    let output = Command::new("qemu-img").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn empty(path: &Path) -> RequiredFile {
    RequiredFile::EmptyDisk {
        volume: "empty".into(),
        path: text(path),
        bytes: GIB,
    }
}

fn overlay(path: &Path, backing: &Path) -> RequiredFile {
    RequiredFile::Overlay {
        volume: "root".into(),
        path: text(path),
        backing: text(backing),
        format: "qcow2".into(),
    }
}

fn vmi() -> Vmi {
    Vmi::from_json(
        br#"{"metadata":{"name":"vm"},"spec":{"volumes":[
            {"name":"ci","cloudInitNoCloud":{}},{"name":"root","containerDisk":{"image":"i"}}]}}"#,
    )
    .unwrap()
}

#[tokio::test]
async fn empty_disk_is_made_once_and_keeps_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("empty-disks/empty.qcow2");
    let files = [empty(&image)];
    fs::create_dir_all(image.parent().unwrap()).unwrap();
    let cut_short = directory.path().join("empty-disks/empty.qcow2.1-0.part");
    let cut_short = fs::File::create(cut_short).unwrap();
    cut_short
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();

    prepare_required_files(&files, &tools()).await.unwrap();
    let info = inspect("empty", &image, &tools()).await.unwrap();
    assert_eq!((info.format.as_str(), info.virtual_size), ("qcow2", GIB));
    assert_eq!(
        fs::metadata(&image).unwrap().uid(),
        atomic_file::tests::expected_owner()
    );

    fs::write(&image, "the guest's").unwrap();
    prepare_required_files(&files, &tools()).await.unwrap();
    assert_eq!(fs::read(&image).unwrap(), b"the guest's");
    assert_eq!(fs::read_dir(image.parent().unwrap()).unwrap().count(), 1);
}

#[tokio::test]
async fn overlay_is_backed_by_its_image() {
    let directory = tempfile::tempdir().unwrap();
    let backing = directory.path().join("disk_0.img");
    qemu_img(&["create", "-q", "-f", "qcow2", &text(&backing), "2G"]);
    let image = directory.path().join("disk-data/root/disk.qcow2");
    prepare_required_files(&[overlay(&image, &backing)], &tools())
        .await
        .unwrap();
    assert_eq!(
        fs::metadata(&image).unwrap().permissions().mode() & 0o777,
        0o640
    );
    let reason = inspect("root", &image, &tools())
        .await
        .unwrap_err()
        .to_string();
    assert!(reason.contains("expected no backing file"), "{reason}");
    assert!(reason.contains("disk_0.img"), "{reason}");
}

#[tokio::test]
async fn error_contains_the_path_of_a_missing_required_file() {
    let directory = tempfile::tempdir().unwrap();
    let missing_image = directory.path().join("disk_0.img");
    let error = prepare_required_files(
        &[overlay(&directory.path().join("o"), &missing_image)],
        &tools(),
    )
    .await
    .unwrap_err();
    assert!(matches!(
        &error,
        DiskImageError::MissingBackingImage { volume, path } if volume == "root" && *path == missing_image
    ));
    let boot = RequiredFile::KernelBoot {
        artifacts: vec![text(&missing_image)],
    };
    let error = prepare_required_files(&[boot], &tools()).await.unwrap_err();
    assert!(
        matches!(error, DiskImageError::MissingKernelBootFile { path } if path == missing_image)
    );
}

#[tokio::test]
async fn container_disks_are_inspected_once() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk_1.img");
    let error =
        inspect_container_disks(&vmi(), &Default::default(), directory.path(), &tools()).await;
    assert!(
        matches!(error.unwrap_err(), DiskImageError::MissingBackingImage { path, .. } if path == image)
    );
    qemu_img(&["create", "-q", "-f", "qcow2", &text(&image), "1G"]);
    let found = inspect_container_disks(&vmi(), &Default::default(), directory.path(), &tools())
        .await
        .unwrap();
    assert_eq!(found["root"].format, "qcow2");
    fs::remove_file(&image).unwrap();
    let repeated = inspect_container_disks(&vmi(), &found, directory.path(), &tools())
        .await
        .unwrap();
    assert_eq!(repeated, found);
}

#[test]
fn direct_io_is_probed_on_the_file_system() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("yet-to-be.iso");
    let before = DriverModeProbe.file(&text(&path)).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    fs::write(&path, vec![1; 4096]).unwrap();
    assert_eq!(DriverModeProbe.file(&text(&path)).unwrap(), before);
    assert!(
        DriverModeProbe
            .file(&text(&directory.path().join("no/where")))
            .is_err()
    );
}

#[test]
fn preallocation_is_read_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let sparse = directory.path().join("sparse");
    fs::File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
    assert!(!DriverModeProbe.preallocated(&text(&sparse)));
    for (name, option, expected) in [("thin", "off", false), ("full", "full", true)] {
        let path = directory.path().join(name);
        let option = format!("preallocation={option}");
        qemu_img(&[
            "create",
            "-q",
            "-f",
            "qcow2",
            "-o",
            &option,
            &text(&path),
            "8M",
        ]);
        assert_eq!(
            DriverModeProbe.preallocated(&text(&path)),
            expected,
            "{name}"
        );
    }
    assert!(!DriverModeProbe.preallocated("/nonexistent"));
}
