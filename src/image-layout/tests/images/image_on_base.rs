//! Images on a base: as a directory or an archive, or with unknown members; unusable bases and layers.

use std::fs;
use std::path::{Path, PathBuf};

use image_layout::{Image, Layer, Platform};
use serde_json::{Value as Json, json};

use crate::image_reader::{read_image, sha256_hex};

pub(crate) fn amd64() -> Platform {
    Platform {
        os: "linux".to_owned(),
        architecture: "amd64".to_owned(),
    }
}

/// Writes a base with those paths of KubeVirt's image that the tests look at.
pub(crate) fn write_base_image(directory: &Path) -> PathBuf {
    write_base_of_release(directory, None)
}

/// Like [`write_base_image`], with this text in `/.version`.
pub(crate) fn write_base_of_release(directory: &Path, release: Option<&str>) -> PathBuf {
    let mut layer = Layer::new();
    if let Some(release) = release {
        let text = format!("{release}\n").into_bytes();
        layer.file("/.version", 0o644, text).unwrap();
    }
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

/// Writes a base with this configuration and without layers.
fn write_empty_base(path: &Path, config: &Json, media_type: &str) {
    fs::create_dir_all(path.join("blobs/sha256")).unwrap();
    let write = |value: &Json| {
        let text = value.to_string();
        let hex = sha256_hex(text.as_bytes());
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
fn builds_are_reproducible_and_unknown_members_of_the_base_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("base");
    let config = json!({"os": "linux", "architecture": "amd64", "x-unknown": 7,
        "config": {"Entrypoint": ["/bin/x"], "Healthcheck": {}}, "rootfs": {"type": "layers", "diff_ids": []}});
    let mut digests = Vec::new();
    write_empty_base(&path, &config, "application/vnd.oci.image.manifest.v1+json");
    for name in ["one", "other"] {
        let mut image = Image::on(&path, amd64()).unwrap();
        let mut layer = Layer::new();
        layer.file("/b", 0o644, vec![2]).unwrap();
        layer.file("/a", 0o644, vec![1]).unwrap();
        image.push(layer.compress().unwrap(), "test");
        digests.push(image.write(&directory.path().join(name), "x").unwrap());
    }
    assert_eq!(digests[0], digests[1]);
    let (_, written) = read_image(&directory.path().join("one"));
    assert_eq!(
        (&written["x-unknown"], &written["config"]),
        (&json!(7), &config["config"])
    );
}

#[test]
fn archive_and_directory_of_a_base_give_the_same_image() {
    let directory = tempfile::tempdir().unwrap();
    let base = write_base_image(directory.path());
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

/// Paths and contents of a layer.
type Files = &'static [(&'static str, &'static str)];

/// The layers, from the lowest: what each has in the root directory, and what the image has then.
#[test]
fn newest_layer_decides_about_a_file_of_the_base() {
    let version = ".version";
    let cases: [(&[Files], Option<&str>); 7] = [
        (&[&[("/.version", "one")]], Some("one")),
        (&[&[("/.version", "one")], &[("/other", "")]], Some("one")),
        (
            &[&[("/.version", "one")], &[("/.version", "two")]],
            Some("two"),
        ),
        (&[&[("/.version", "one")], &[("/.wh..version", "")]], None),
        (&[&[("/.version", "one")], &[("/.wh..wh..opq", "")]], None),
        (
            &[&[("/a/.version", "one")], &[("/a/.wh..version", "")]],
            None,
        ),
        (&[], None),
    ];
    for (layers, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("base");
        let mut image = Image::empty(amd64());
        for files in layers {
            let mut layer = Layer::new();
            for (path, content) in *files {
                layer
                    .file(path, 0o644, content.as_bytes().to_vec())
                    .unwrap();
            }
            image.push(layer.compress().unwrap(), "test");
        }
        image.write(&path, "base").unwrap();
        let base = Image::on(&path, amd64()).unwrap();
        let found = base.root_file_of_base(version, 100).unwrap();
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{layers:?}");
        if expected.is_some() {
            let error = base.root_file_of_base(version, 2).unwrap_err().to_string();
            assert!(error.contains("more than the 2"), "{error}");
        }
    }
    assert_eq!(
        Image::empty(amd64())
            .root_file_of_base(version, 100)
            .unwrap(),
        None
    );
}

#[test]
fn errors_of_unusable_bases_and_entries_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let base_error =
        |path: &Path, platform: Platform| Image::on(path, platform).err().unwrap().to_string();
    let text = base_error(directory.path(), amd64());
    assert!(
        text.contains("not an OCI image layout") && text.contains("skopeo"),
        "{text}"
    );
    let base = write_base_image(directory.path());
    let arm = Platform {
        architecture: "arm64".to_owned(),
        ..amd64()
    };
    let text = base_error(&base, arm);
    assert!(text.contains("no image for linux/arm64"), "{text}");
    // The only image of a layout, whose descriptor has no platform.
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
        write_empty_base(&path, &config, oci);
        let text = base_error(&path, amd64());
        assert!(text.contains(part), "{text}");
    }
    let docker = "application/vnd.docker.distribution.manifest.v2+json";
    write_empty_base(&at("docker"), &json!({}), docker);
    let text = base_error(&at("docker"), amd64());
    assert!(text.contains(docker), "{text}");
    fs::write(at("text"), "no archive").unwrap();
    base_error(&at("text"), amd64());

    // A layer whose content does not have the digest in the manifest.
    let (manifest, _) = read_image(&base);
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
