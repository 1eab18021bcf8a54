//! The launcher's image on a stand-in base: what a container runtime would unpack.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use image_layout::{Image, Layer, Platform};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// `CAP_NET_BIND_SERVICE=ep` as Linux stores it.
const NET_BIND_SERVICE: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A file system entry: type and mode, owner, link target or content, capabilities.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    mode: u32,
    owner: (u64, u64),
    kind: tar::EntryType,
    content: Vec<u8>,
    capabilities: Option<Vec<u8>>,
}

fn amd64() -> Platform {
    Platform {
        os: "linux".to_owned(),
        architecture: "amd64".to_owned(),
    }
}

/// A base with the paths of KubeVirt's image that matter.
fn base(directory: &Path) -> PathBuf {
    let mut layer = Layer::new();
    layer.directory("/usr/bin", 0o555).unwrap();
    layer
        .file("/usr/bin/virt-launcher", 0o755, b"theirs".to_vec())
        .unwrap();
    for name in ["container-disk", "libvirt-hook-client"] {
        layer
            .file(&format!("/usr/bin/{name}"), 0o755, b"theirs".to_vec())
            .unwrap();
    }
    layer.link("/var/run", "../run").unwrap();
    let mut image = Image::empty(amd64());
    image.push(layer.compress().unwrap(), "base");
    let path = directory.join("base");
    image.write(&path, "base").unwrap();
    path
}

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

fn programs(directory: &Path) -> PathBuf {
    let path = directory.join("programs");
    fs::create_dir(&path).unwrap();
    for name in ["virt-launcher", "virt-launcher-monitor", "virt-hook"] {
        fs::write(path.join(name), program()).unwrap();
    }
    path
}

fn build(arguments: &[&Path], flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_launcher-image"));
    for (flag, path) in flags.iter().zip(arguments) {
        command.arg(flag).arg(path);
    }
    command.output().unwrap()
}

fn blob(layout: &Path, descriptor: &Json) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let content = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    let found: String = Sha256::digest(&content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, format!("sha256:{found}"));
    if let Some(size) = descriptor["size"].as_u64() {
        assert_eq!(size, content.len() as u64);
    }
    content
}

fn json_of(content: &[u8]) -> Json {
    serde_json::from_slice(content).unwrap()
}

/// The manifest and the configuration of a layout with one image.
fn read(layout: &Path) -> (Json, Json) {
    let index = json_of(&fs::read(layout.join("index.json")).unwrap());
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    let manifest = json_of(&blob(layout, &index["manifests"][0]));
    let config = json_of(&blob(layout, &manifest["config"]));
    (manifest, config)
}

/// All layers, one over the other.
fn unpack(layout: &Path) -> BTreeMap<String, Entry> {
    let (manifest, config) = read(layout);
    let layers = manifest["layers"].as_array().unwrap();
    let diff_ids = config["rootfs"]["diff_ids"].as_array().unwrap();
    assert_eq!(layers.len(), diff_ids.len());
    let mut files = BTreeMap::new();
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let mut archive = Vec::new();
        GzDecoder::new(&blob(layout, layer)[..])
            .read_to_end(&mut archive)
            .unwrap();
        let found: String = Sha256::digest(&archive)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(*diff_id, format!("sha256:{found}"));
        for entry in tar::Archive::new(&archive[..]).entries().unwrap() {
            let (path, entry) = read_entry(entry.unwrap());
            files.insert(path, entry);
        }
    }
    files
}

fn read_entry(mut entry: tar::Entry<'_, &[u8]>) -> (String, Entry) {
    let path = entry
        .path()
        .unwrap()
        .to_str()
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let capability = "SCHILY.xattr.security.capability";
    let extensions = entry.pax_extensions().unwrap();
    let mut extensions = extensions.into_iter().flatten().map(Result::unwrap);
    let capabilities = extensions.find(|extension| extension.key() == Ok(capability));
    let capabilities = capabilities.map(|extension| extension.value_bytes().to_vec());
    let mut content = Vec::new();
    if let Some(target) = entry.link_name().unwrap() {
        content.extend(target.to_str().unwrap().bytes());
    }
    entry.read_to_end(&mut content).unwrap();
    let header = entry.header();
    let read = Entry {
        mode: header.mode().unwrap(),
        owner: (header.uid().unwrap(), header.gid().unwrap()),
        kind: header.entry_type(),
        content,
        capabilities,
    };
    (path, read)
}

#[test]
fn layers_have_the_owners_modes_capabilities_and_links_of_the_image() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (base, programs) = (base(directory.path()), programs(directory.path()));
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
        "-o",
    ];
    let paths = [
        base,
        programs,
        at("policy.yaml"),
        at("hooks"),
        at("artifacts"),
        at("image"),
    ];
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let output = build(&paths, &flags);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let files = unpack(&at("image"));
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
    assert_eq!(files["var/run"].content, b"../run");
    let libvirt_hook = &files["usr/bin/libvirt-hook-client"];
    assert_eq!(libvirt_hook.kind, tar::EntryType::Symlink);
    assert_eq!(libvirt_hook.content, b"virt-hook");
    let (_, config) = read(&at("image"));
    assert_eq!(config["history"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_input_is_the_same_image_and_members_of_the_base_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("base");
    let config = json!({"os": "linux", "architecture": "amd64", "x-unknown": 7,
        "config": {"Entrypoint": ["/bin/x"], "Healthcheck": {}}, "rootfs": {"type": "layers", "diff_ids": []}});
    let mut digests = Vec::new();
    write_base(&path, &config, "application/vnd.oci.image.manifest.v1+json");
    for name in ["one", "other"] {
        let mut image = Image::on(&path, amd64()).unwrap();
        let mut layer = Layer::new();
        layer.file("/b", 0o644, vec![2]).unwrap();
        layer.file("/a", 0o644, vec![1]).unwrap();
        image.push(layer.compress().unwrap(), "test");
        digests.push(image.write(&directory.path().join(name), "x").unwrap());
    }
    assert_eq!(digests[0], digests[1]);
    let (_, read) = read(&directory.path().join("one"));
    assert_eq!(
        (&read["x-unknown"], &read["config"]),
        (&json!(7), &config["config"])
    );
}

/// A base with this configuration, without layers.
fn write_base(path: &Path, config: &Json, media_type: &str) {
    fs::create_dir_all(path.join("blobs/sha256")).unwrap();
    let write = |value: &Json| {
        let text = value.to_string();
        let hex: String = Sha256::digest(&text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        fs::write(path.join("blobs/sha256").join(&hex), &text).unwrap();
        json!({"digest": format!("sha256:{hex}"), "size": text.len()})
    };
    let config = write(config);
    let mut manifest = write(&json!({"schemaVersion": 2, "config": config, "layers": []}));
    manifest["mediaType"] = media_type.into();
    fs::write(
        path.join("index.json"),
        json!({"manifests": [manifest]}).to_string(),
    )
    .unwrap();
    fs::write(path.join("oci-layout"), "{}").unwrap();
}

#[test]
fn an_archive_is_a_base_like_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let base = base(directory.path());
    let archive = directory.path().join("base.tar");
    let mut tar = tar::Builder::new(fs::File::create(&archive).unwrap());
    tar.append_dir_all(".", &base).unwrap();
    tar.finish().unwrap();
    let write = |base: &Path, name: &str| {
        let out = directory.path().join(name);
        Image::on(base, amd64()).unwrap().write(&out, "x").unwrap()
    };
    assert_eq!(write(&archive, "one"), write(&base, "other"));
}

#[test]
fn unusable_bases_and_inputs_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let refusal =
        |path: &Path, platform: Platform| Image::on(path, platform).err().unwrap().to_string();
    let text = refusal(directory.path(), amd64());
    assert!(
        text.contains("not an OCI image layout") && text.contains("skopeo"),
        "{text}"
    );
    let base = base(directory.path());
    let arm = Platform {
        architecture: "arm64".to_owned(),
        ..amd64()
    };
    let text = refusal(&base, arm);
    assert!(text.contains("no image for linux/arm64"), "{text}");
    // Its descriptor has no platform.
    let oci = "application/vnd.oci.image.manifest.v1+json";
    for (config, part) in [
        (
            json!({"os": "linux", "architecture": "arm64", "rootfs": {"diff_ids": []}}),
            "is for linux/arm64, and one for linux/amd64 is needed",
        ),
        (
            json!({"rootfs": {"diff_ids": []}}),
            "is for unknown/unknown",
        ),
    ] {
        let path = at(config["architecture"].as_str().unwrap_or("none"));
        write_base(&path, &config, oci);
        let text = refusal(&path, amd64());
        assert!(text.contains(part), "{text}");
    }
    let docker = "application/vnd.docker.distribution.manifest.v2+json";
    write_base(&at("docker"), &json!({}), docker);
    let text = refusal(&at("docker"), amd64());
    assert!(text.contains(docker), "{text}");
    fs::write(at("text"), "no archive").unwrap();
    refusal(&at("text"), amd64());

    // A layer that is not what the manifest says.
    let (manifest, _) = read(&base);
    let digest = manifest["layers"][0]["digest"]
        .as_str()
        .unwrap()
        .replace(':', "/");
    fs::write(base.join("blobs").join(digest), "changed").unwrap();
    let error = Image::on(&base, amd64())
        .unwrap()
        .write(&at("out"), "x")
        .unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");

    let mut layer = Layer::new();
    for path in ["a", "/a//b", "/a/../b", "/"] {
        layer.file(path, 0o644, Vec::new()).unwrap_err();
    }
    layer.file("/a", 0o644, Vec::new()).unwrap();
    assert!(
        layer
            .link("/a", "b")
            .unwrap_err()
            .to_string()
            .contains("twice")
    );
}

#[test]
fn missing_and_foreign_programs_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (base, programs) = (base(directory.path()), programs(directory.path()));
    let out = directory.path().join("out");
    let refusal = || {
        let output = build(&[&base, &programs, &out], &["--base", "--programs", "-o"]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(programs.join("virt-hook"), "#!/bin/sh").unwrap();
    assert!(
        refusal().contains("virt-hook") && refusal().contains("no 64-bit ELF program"),
        "{}",
        refusal()
    );
    let mut arm = program();
    arm[18] = 183;
    fs::write(programs.join("virt-hook"), arm).unwrap();
    let text = refusal();
    assert!(
        text.contains("virt-hook") && text.contains("it is for arm64, and the base for amd64"),
        "{text}"
    );
    fs::remove_file(programs.join("virt-launcher-monitor")).unwrap();
    assert!(refusal().contains("virt-launcher-monitor"), "{}", refusal());
}
