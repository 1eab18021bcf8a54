//! The program `launcher-image` on a stand-in for KubeVirt's image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::image_on_base::{write_base_image, write_base_of_release};
use crate::image_reader::{read_image, unpack};

/// `CAP_NET_BIND_SERVICE=ep` as Linux stores it.
const NET_BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A program that needs no shared library: the header of an ELF file without sections.
fn program() -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 2;
    header[18] = 62;
    header[20] = 1;
    header[52] = 64;
    header
}

fn write_programs(directory: &Path) -> PathBuf {
    let path = directory.join("programs");
    fs::create_dir(&path).unwrap();
    for name in ["virt-launcher", "virt-launcher-monitor", "virt-hook"] {
        fs::write(path.join(name), program()).unwrap();
    }
    path
}

/// Runs `launcher-image` with these flags, each with its path.
fn run_launcher_image(paths: &[&Path], flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_launcher-image"));
    for (flag, path) in flags.iter().zip(paths) {
        command.arg(flag).arg(path);
    }
    command.output().unwrap()
}

/// Makes an image with every kind of content in `directory`, and returns its path.
fn make_image(directory: &Path) -> PathBuf {
    let at = |name: &str| directory.join(name);
    let (base, programs) = (write_base_image(directory), write_programs(directory));
    fs::write(at("policy.yaml"), "allow: {paths: [/domain/title]}\n").unwrap();
    fs::create_dir_all(at("hooks/image-banner")).unwrap();
    fs::write(at("hooks/image-banner/hook.wasm"), "module").unwrap();
    fs::create_dir(at("artifacts")).unwrap();
    fs::write(at("artifacts/code"), "code").unwrap();
    let flags = [
        "--base",
        "--programs",
        "--policy",
        "--hooks",
        "--artifacts",
        "--kubevirt-version",
        "-o",
    ];
    let paths = [
        base,
        programs,
        at("policy.yaml"),
        at("hooks"),
        at("artifacts"),
        "v1.8.4".into(),
        at("image"),
    ];
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let output = run_launcher_image(&paths, &flags);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    at("image")
}

/// skopeo checks every blob's digest and size, and GNU tar extracts the layers.
#[test]
fn image_is_read_by_skopeo_and_gnu_tar() {
    let directory = tempfile::tempdir().unwrap();
    let image = make_image(directory.path());
    let (copy, root) = (directory.path().join("copy"), directory.path().join("root"));
    let copied = Command::new("skopeo")
        .args(["copy", "--insecure-policy"])
        .args([
            format!("oci:{}", image.display()),
            format!("dir:{}", copy.display()),
        ])
        .output()
        .expect("skopeo reads images back in these tests: scripts/setup installs it");
    let errors = String::from_utf8_lossy(&copied.stderr);
    assert!(copied.status.success(), "{errors}");
    let manifest = fs::read(copy.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    fs::create_dir(&root).unwrap();
    let mut listing = String::new();
    for layer in manifest["layers"].as_array().unwrap() {
        let digest = layer["digest"].as_str().unwrap().replace("sha256:", "");
        let extracted = Command::new("tar")
            .args(["--extract", "--verbose", "--verbose", "--xattrs"])
            .args(["--xattrs-include=*", "--no-same-owner", "--gzip", "--file"])
            .args([&copy.join(digest), Path::new("--directory"), &root])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&extracted.stderr);
        assert!(extracted.status.success(), "{errors}");
        listing += &String::from_utf8(extracted.stdout).unwrap();
    }
    let monitor = fs::read(root.join("usr/bin/virt-launcher-monitor")).unwrap();
    assert_eq!(monitor, program());
    let client = fs::read_link(root.join("usr/bin/libvirt-hook-client")).unwrap();
    assert_eq!(client, Path::new("virt-hook"));
    // GNU tar marks files that have extended attributes.
    let is_capable = |line: &str| {
        line.starts_with("-rwxr-xr-x*") && line.ends_with(" usr/bin/virt-launcher-monitor")
    };
    assert!(listing.lines().any(is_capable), "{listing}");
}

#[test]
fn layers_have_the_owners_modes_capabilities_and_links_of_the_image() {
    let directory = tempfile::tempdir().unwrap();
    let image = make_image(directory.path());
    let files = unpack(&image);
    for entry in files.values() {
        assert_eq!(entry.owner, (0, 0));
    }
    let mode = |path: &str| (files[path].kind, files[path].mode);
    let (file, dir) = (tar::EntryType::Regular, tar::EntryType::Directory);
    for program in ["virt-launcher", "virt-launcher-monitor", "virt-hook"] {
        let path = format!("usr/bin/{program}");
        assert_eq!(mode(&path), (file, 0o755), "{path}");
        assert_eq!(files[&path].content, self::program());
        let capable = program == "virt-launcher-monitor";
        let expected = capable.then(|| NET_BIND_SERVICE.to_vec());
        assert_eq!(files[&path].capabilities, expected, "{path}");
    }
    for (path, expected) in [
        ("usr/bin", (dir, 0o555)),
        ("usr/bin/container-disk", (file, 0o755)),
        ("etc/virt-launcher", (dir, 0o755)),
        ("etc/virt-launcher/hook-policy.yaml", (file, 0o644)),
        ("etc/virt-launcher/hooks/image-banner", (dir, 0o755)),
        (
            "etc/virt-launcher/hooks/image-banner/hook.wasm",
            (file, 0o644),
        ),
        ("usr/share/virt-launcher/hook-artifacts/code", (file, 0o644)),
    ] {
        assert_eq!(mode(path), expected, "{path}");
    }
    assert_eq!(
        files["etc/virt-launcher/kubevirt-version"].content,
        b"v1.8.4\n"
    );
    assert_eq!(files["var/run"].content, b"../run");
    let libvirt_hook = &files["usr/bin/libvirt-hook-client"];
    assert_eq!(libvirt_hook.kind, tar::EntryType::Symlink);
    assert_eq!(libvirt_hook.content, b"virt-hook");
    let (_, config) = read_image(&image);
    assert_eq!(config["history"].as_array().unwrap().len(), 2);
}

#[test]
fn missing_and_unsuitable_programs_are_errors_that_name_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let (base, programs) = (
        write_base_image(directory.path()),
        write_programs(directory.path()),
    );
    let out = directory.path().join("out");
    let error_text = || {
        let output = run_launcher_image(&[&base, &programs, &out], &["--base", "--programs", "-o"]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(programs.join("virt-hook"), "#!/bin/sh").unwrap();
    assert!(
        error_text().contains("virt-hook") && error_text().contains("no 64-bit ELF program"),
        "{}",
        error_text()
    );
    let mut arm = program();
    arm[18] = 183;
    fs::write(programs.join("virt-hook"), arm).unwrap();
    let text = error_text();
    assert!(
        text.contains("virt-hook") && text.contains("it is for arm64, and the base for amd64"),
        "{text}"
    );
    fs::remove_file(programs.join("virt-launcher-monitor")).unwrap();
    assert!(
        error_text().contains("virt-launcher-monitor"),
        "{}",
        error_text()
    );
}

/// What the base's `/.version` says, `--kubevirt-version`, whether the base is accepted, and what is said.
#[test]
fn the_version_of_kubevirt_is_found_and_checked_before_programs_are_built() {
    let (said, refused) = (true, false);
    for (release, setting, is_accepted, text) in [
        (
            Some("v1.9.0"),
            None,
            said,
            "the launcher will behave as that of v1.9",
        ),
        (
            Some("v1.8.4"),
            None,
            said,
            "the launcher will behave as that of v1.8",
        ),
        (
            Some("v1.10.0-alpha.0-31-g0123456"),
            None,
            said,
            "behave as that of v1.10",
        ),
        (
            Some("v1.12.3"),
            None,
            said,
            "warning: the base's /.version says \"v1.12.3\", which is newer",
        ),
        (
            Some("v1.7.4"),
            None,
            refused,
            "the base is not supported: KubeVirt v1.7.4 is not supported",
        ),
        (None, None, said, "warning: the base has no /.version"),
        (
            Some("{gitVersion}"),
            None,
            said,
            "is no release of KubeVirt",
        ),
        (
            None,
            Some("v1.8.4"),
            said,
            "--kubevirt-version says v1.8.4: the launcher will behave as that of v1.8",
        ),
        (
            Some("{gitVersion}"),
            Some("v1.9.0"),
            said,
            "behave as that of v1.9",
        ),
        (
            Some("v1.9.0"),
            Some("v1.8.4"),
            said,
            "is this the right base?",
        ),
        (
            Some("v1.7.4"),
            Some("v1.9.0"),
            said,
            "is this the right base?",
        ),
        (
            None,
            Some("v1.7.4"),
            refused,
            "--kubevirt-version: KubeVirt v1.7.4 is not supported",
        ),
        (
            Some("v1.9.0"),
            Some("newest"),
            refused,
            "--kubevirt-version: \"newest\" is no release",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let base = write_base_of_release(directory.path(), release);
        let mut command = Command::new(env!("CARGO_BIN_EXE_launcher-image"));
        command.arg("--check").arg("--base").arg(&base);
        if let Some(setting) = setting {
            command.args(["--kubevirt-version", setting]);
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let case = format!("{release:?}, {setting:?}: {stderr}");
        assert_eq!(output.status.success(), is_accepted, "{case}");
        assert!(stderr.contains(text), "{case}");
    }
}
