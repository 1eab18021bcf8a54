//! `image`: the content of the layout, as a container runtime reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{smbios, text, virt_hook, write};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The path of a blob's file, whose digest is checked.
fn blob(layout: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap();
    let hex = digest.strip_prefix("sha256:").unwrap();
    let path = layout.join("blobs/sha256").join(hex);
    let sum = Command::new("sha256sum").arg(&path).output().unwrap();
    assert!(String::from_utf8_lossy(&sum.stdout).starts_with(hex));
    assert_eq!(fs::metadata(&path).unwrap().len(), descriptor["size"]);
    path
}

/// A hook's directory with every file that an image can have.
fn hook(temp_dir: &Path, yaml: &str) -> PathBuf {
    let directory = temp_dir.join("banner");
    write(&directory, "hook.yaml", yaml);
    let module = directory.join("hook.wasm");
    fs::copy(smbios(), &module).unwrap();
    let key = super::signing_key::signing_key(temp_dir, "key");
    virt_hook(&["sign", text(&module), "--key", text(&key)]).success_stdout();
    directory
}

#[test]
fn an_image_has_one_layer_with_a_directory_per_hook() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (one, other) = (
        hook(temp_dir.path(), "priority: 3\n"),
        temp_dir.path().join("plain"),
    );
    fs::create_dir(&other).unwrap();
    fs::copy(smbios(), other.join("any-name.wasm")).unwrap();
    // Signatures have a random part, so both layouts are made from the same signature.
    let build = |layout: &Path| {
        let arguments = [
            "image",
            text(&one),
            text(&other),
            "--out",
            text(layout),
            "--json",
        ];
        virt_hook(&arguments).json()
    };
    let (first, second) = (
        temp_dir.path().join("first"),
        temp_dir.path().join("second"),
    );
    let report = build(&first);
    assert_eq!(
        report["result"]["digest"],
        build(&second)["result"]["digest"],
        "the same modules make the same image"
    );
    assert_eq!(report["result"]["hooks"][0]["hookYaml"], true);

    let index = json(&first.join("index.json"));
    let name = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
    assert_eq!(name, "latest");
    let manifests = json(&blob(&first, &index["manifests"][0]))["manifests"].clone();
    let architecture = |entry: &Value| {
        entry["platform"]["architecture"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let platforms: Vec<_> = manifests
        .as_array()
        .unwrap()
        .iter()
        .map(architecture)
        .collect();
    assert_eq!(platforms, ["amd64", "arm64", "s390x"]);
    for descriptor in manifests.as_array().unwrap() {
        let manifest = json(&blob(&first, descriptor));
        let config = json(&blob(&first, &manifest["config"]));
        assert_eq!(
            config["architecture"],
            descriptor["platform"]["architecture"]
        );
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 1);
        let listing = Command::new("tar")
            .args(["--list", "--verbose", "--numeric-owner", "--file"])
            .arg(blob(&first, &layers[0]))
            .output()
            .unwrap();
        let listing = String::from_utf8(listing.stdout).unwrap();
        let entries: Vec<_> = listing
            .lines()
            .map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                format!("{} {} {}", words[0], words[1], words[words.len() - 1])
            })
            .collect();
        assert_eq!(
            entries,
            [
                "drwxr-xr-x 0/0 banner/",
                "-rw-r--r-- 0/0 banner/hook.wasm",
                "-rw-r--r-- 0/0 banner/hook.wasm.sigstore.json",
                "-rw-r--r-- 0/0 banner/hook.yaml",
                "drwxr-xr-x 0/0 plain/",
                "-rw-r--r-- 0/0 plain/hook.wasm",
            ]
        );
    }
}

#[test]
fn an_artifact_is_the_module_alone() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (directory, layout) = (
        hook(temp_dir.path(), "{}\n"),
        temp_dir.path().join("layout"),
    );
    let arguments = [
        "image",
        text(&directory),
        "--artifact",
        "--out",
        text(&layout),
    ];
    virt_hook(&arguments).success_stdout();
    let index = json(&layout.join("index.json"));
    let manifest = json(&blob(&layout, &index["manifests"][0]));
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    assert_eq!(layers[0]["mediaType"], "application/wasm");
    assert_eq!(
        fs::read(blob(&layout, &layers[0])).unwrap(),
        fs::read(smbios()).unwrap()
    );
    let config = json(&blob(&layout, &manifest["config"]));
    assert_eq!(config["layerDigests"][0], layers[0]["digest"]);
    let imports = config["component"]["imports"].to_string();
    assert!(imports.contains("virt-hook:hooks/"), "{config:#}");
}

#[test]
fn modules_and_files_that_cannot_be_in_an_image_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, layout) = (smbios(), temp_dir.path().join("layout"));
    let capital_letters = temp_dir.path().join("CapitalLetters.wasm");
    fs::copy(&module, &capital_letters).unwrap();
    let garbage = write(temp_dir.path(), "garbage.wasm", "garbage");
    let swapped = write(temp_dir.path(), "swapped.wasm", "\0asm of before");
    let key = super::signing_key::signing_key(temp_dir.path(), "key");
    virt_hook(&["sign", text(&swapped), "--key", text(&key)]).success_stdout();
    fs::copy(&module, &swapped).unwrap();
    let yaml = write(temp_dir.path(), "other.yaml", "prioritty: 1\n");
    let pin = format!("sha256: {}\n", "ab".repeat(32));
    let pinned = write(temp_dir.path(), "pinned.yaml", &pin);
    let misnamed = temp_dir.path().join("smbios.wasm");
    fs::copy(&module, &misnamed).unwrap();
    for (code, part, arguments) in [
        (2, "CapitalLetters", &[text(&capital_letters)][..]),
        (2, "garbage.wasm", &[text(&garbage)]),
        (
            1,
            "swapped.wasm.sigstore.json: it is the signature of a file",
            &[text(&swapped)],
        ),
        (
            2,
            "other.yaml:1:1",
            &[text(&misnamed), "--hook-yaml", text(&yaml)],
        ),
        (
            1,
            "for a module with the sha256 ab",
            &[text(&misnamed), "--hook-yaml", text(&pinned)],
        ),
        (
            2,
            "no such file",
            &[text(&misnamed), "--hook-yaml", "/nonexistent"],
        ),
        (2, "is named twice", &[text(&misnamed), text(&misnamed)]),
        (
            2,
            "possible values: amd64, arm64, s390x",
            &[text(&misnamed), "--architecture", "mips"],
        ),
        (2, "/nonexistent.wasm", &["/nonexistent.wasm"]),
        (
            2,
            "an artifact has one module",
            &[
                text(&misnamed),
                text(&copy(&misnamed, "b.wasm")),
                "--artifact",
            ],
        ),
    ] {
        let printed = virt_hook(&[&["image", "--out", text(&layout)], arguments].concat());
        assert_eq!(printed.code, code, "{arguments:?}: {}", printed.err);
        assert!(printed.err.contains(part), "{part}: {}", printed.err);
        let lines = printed.err.lines().count();
        assert!(lines == 1 || arguments.contains(&"mips"), "{}", printed.err);
        assert!(!layout.exists());
    }
    fs::create_dir(&layout).unwrap();
    let printed = virt_hook(&["image", text(&misnamed), "--out", text(&layout)]);
    assert_eq!(printed.code, 2, "{}", printed.err);
    assert!(printed.err.contains("layout exists"), "{}", printed.err);
}

fn copy(module: &Path, name: &str) -> PathBuf {
    let path = module.with_file_name(name);
    fs::copy(module, &path).unwrap();
    path
}
