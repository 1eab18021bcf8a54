//! Tests of config disks: the files in their images, and invalid volumes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::*;

/// A volume's directory, with links as the kubelet makes them.
fn mounted(files: &[(&str, &str)]) -> tempfile::TempDir {
    let mount = tempfile::tempdir().unwrap();
    let version = "..2026_11_21_16_41_05.2087931284";
    fs::create_dir(mount.path().join(version)).unwrap();
    symlink(version, mount.path().join("..data")).unwrap();
    for (name, content) in files {
        let path = mount.path().join(version).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        let first = name.split('/').next().unwrap();
        let link = mount.path().join(first);
        if !link.is_symlink() {
            symlink(format!("..data/{first}"), link).unwrap();
        }
    }
    mount
}

fn iso(kind: ConfigKind, mount: &Path, image: &Path) -> ConfigIso {
    ConfigIso {
        volume: "settings".into(),
        kind,
        directory: mount.to_str().unwrap().into(),
        path: image.to_str().unwrap().into(),
        label: "cfgdata".into(),
        min_bytes: 0,
    }
}

/// Paths of the files in an image, as an independent reader finds them.
fn list_files(image: &Path) -> Vec<String> {
    let output = Command::new("xorriso")
        .args([
            "-indev",
            image.to_str().unwrap(),
            "-find",
            "/",
            "-type",
            "f",
        ])
        .output()
        .expect("xorriso reads images back in these tests: install xorriso");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut paths: Vec<_> = text
        .lines()
        .map(|line| line.trim_matches('\'').to_owned())
        .collect();
    paths.sort();
    paths
}

#[test]
fn image_has_the_mounted_files() {
    let mount = mounted(&[
        ("app.conf", "a=1\n"),
        ("sub/deep.json", "{}"),
        ("empty", ""),
    ]);
    let images = tempfile::tempdir().unwrap();
    let image = images.path().join("config-map-disks/settings.iso");
    for _ in 0..2 {
        write(&iso(ConfigKind::ConfigMap, mount.path(), &image)).unwrap();
    }
    let listing = list_files(&image);
    for path in ["/app.conf", "/sub/deep.json", "/empty", "/..data/app.conf"] {
        assert!(listing.contains(&path.to_owned()), "{path} in {listing:#?}");
    }
    assert_eq!(
        listing.len(),
        9,
        "once by its name, twice by the kubelet's: {listing:#?}"
    );
    let metadata = fs::metadata(&image).unwrap();
    assert_eq!(metadata.len(), ALIGNMENT);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(image.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn missing_optional_volume_gives_an_empty_image() {
    let mount = tempfile::tempdir().unwrap();
    let image = mount.path().join("../empty-volume.iso");
    let target = tempfile::tempdir().unwrap();
    let image = target.path().join(image.file_name().unwrap());
    write(&iso(ConfigKind::Secret, mount.path(), &image)).unwrap();
    assert_eq!(list_files(&image), [] as [String; 0]);
}

#[test]
fn sysprep_volume_needs_an_answer_file() {
    let images = tempfile::tempdir().unwrap();
    let image = images.path().join("sysprep.iso");
    let with = mounted(&[("Autounattend.XML", "<unattend/>")]);
    write(&iso(ConfigKind::Sysprep, with.path(), &image)).unwrap();
    let without = mounted(&[("answers.xml", "")]);
    let error = write(&iso(ConfigKind::Sysprep, without.path(), &image)).unwrap_err();
    let error_text = error.to_string();
    assert!(
        error_text.contains("volume settings")
            && error_text.contains("neither autounattend.xml nor unattend.xml"),
        "{error_text}"
    );
}

fn read_error(mount: &Path) -> String {
    let images = tempfile::tempdir().unwrap();
    let image = images.path().join("x.iso");
    let error = write(&iso(ConfigKind::ConfigMap, mount, &image)).unwrap_err();
    assert!(!image.exists());
    error.to_string()
}

#[test]
fn error_contains_the_path_of_an_unreadable_file() {
    let missing = read_error(Path::new("/nonexistent/settings"));
    assert!(
        missing.starts_with("volume settings (configMap): reading /nonexistent/settings: "),
        "{missing}"
    );

    let outside = mounted(&[("key", "")]);
    symlink("/etc/passwd", outside.path().join("passwd")).unwrap();
    let error_text = read_error(outside.path());
    assert!(
        error_text.contains("/passwd: it links to /etc/passwd, outside"),
        "{error_text}"
    );

    let endless = mounted(&[("key", "")]);
    symlink(".", endless.path().join("again")).unwrap();
    assert!(read_error(endless.path()).contains("directories deep"));

    let large = tempfile::tempdir().unwrap();
    fs::write(large.path().join("large"), vec![0; (16 << 20) + 1]).unwrap();
    let error_text = read_error(large.path());
    assert!(
        error_text.contains("/large: ") && error_text.contains("more than 16777216 bytes"),
        "{error_text}"
    );

    let broken = mounted(&[("key", "")]);
    symlink("..data/none", broken.path().join("broken")).unwrap();
    assert!(read_error(broken.path()).contains("/broken: "));

    let pipe = tempfile::tempdir().unwrap();
    let path = pipe.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(read_error(pipe.path()).contains("neither a file nor a directory"));
}

#[test]
fn unusual_file_names_are_accepted() {
    let long = format!("{}.conf", "n".repeat(200));
    let mount = tempfile::tempdir().unwrap();
    for name in [long.as_str(), "..double", "UPPER_lower-1.2.3", "grüße"] {
        fs::write(mount.path().join(name), name).unwrap();
    }
    let images = tempfile::tempdir().unwrap();
    let image = images.path().join("x.iso");
    write(&iso(ConfigKind::ConfigMap, mount.path(), &image)).unwrap();
    let listing = list_files(&image);
    for name in [long.as_str(), "..double", "UPPER_lower-1.2.3", "grüße"] {
        assert!(
            listing.contains(&format!("/{name}")),
            "{name} in {listing:#?}"
        );
    }
}
