//! `ImageFiles`: extracts wanted files from untrusted layers.
#![allow(clippy::unwrap_used)]

use image_layout::{ImageFiles, LayerError};
use tar::{EntryType, Header};

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";

fn layer(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        let appended = archive.append_data(&mut header, path, content.as_bytes());
        appended.unwrap();
    }
    archive.into_inner().unwrap()
}

/// Files called `f` are wanted, with at most 3 bytes.
fn size_limit(path: &str) -> Option<u64> {
    path.ends_with("/f").then_some(3)
}

/// The paths of the wanted files after two layers.
fn merged_paths(lower: &[u8], upper: &[u8]) -> Result<Vec<String>, LayerError> {
    let mut files = ImageFiles::new(1 << 20, size_limit);
    files.add_layer(lower, TAR)?;
    files.add_layer(upper, TAR)?;
    Ok(files.into_files().into_keys().collect())
}

#[test]
fn whiteouts_and_replaced_directories_hide_files_of_lower_layers() {
    use EntryType::{Directory, Regular, Symlink};
    let lower = [
        ("a/f", Regular, "x"),
        ("b/f", Regular, "x"),
        ("b/c/f", Regular, "x"),
    ];
    let lower = layer(&lower);
    for (upper, expected) in [
        (&[("./b/.wh.f", Regular, "")][..], &["a/f", "b/c/f"][..]),
        (&[("b/.wh.c", Regular, "")], &["a/f", "b/f"]),
        (&[(".wh.b", Regular, "")], &["a/f"]),
        (
            &[("b/f", Regular, "y"), (".wh.b", Regular, "")],
            &["a/f", "b/f"],
        ),
        (&[("b/.wh..wh..opq", Regular, "")], &["a/f"]),
        (&[(".wh..wh..opq", Regular, "")], &[]),
        (&[("b", Symlink, "")], &["a/f"]),
        (
            &[("b", Directory, ""), ("b/other", Regular, "")],
            &["a/f", "b/c/f", "b/f"],
        ),
        (
            &[("b/.wh.other", Regular, ""), (".wh.c", Regular, "")],
            &["a/f", "b/c/f", "b/f"],
        ),
    ] {
        assert_eq!(
            merged_paths(&lower, &layer(upper)).unwrap(),
            expected,
            "{upper:?}"
        );
    }
}

#[test]
fn all_layers_share_one_size_limit() {
    let layer = layer(&[("other", EntryType::Regular, "x")]);
    let limit = layer.len() as u64 * 2;
    let mut files = ImageFiles::new(limit, size_limit);
    files.add_layer(&layer, TAR).unwrap();
    files.add_layer(&layer, TAR).unwrap();
    let error = files.add_layer(&layer, TAR).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("more than {limit} bytes")),
        "{error}"
    );
}

#[test]
fn wanted_files_must_be_regular_and_within_their_size_limit() {
    for (entry, part) in [
        (
            ("a/f", EntryType::Regular, "four"),
            "\"a/f\" has 4 bytes, more than the 3",
        ),
        (
            ("a/f", EntryType::Symlink, ""),
            "\"a/f\" is not a regular file",
        ),
        (
            ("a/f", EntryType::Link, ""),
            "\"a/f\" is not a regular file",
        ),
        (
            ("a/f", EntryType::Fifo, ""),
            "\"a/f\" is not a regular file",
        ),
    ] {
        let error = merged_paths(&layer(&[]), &layer(&[entry]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    }
}
