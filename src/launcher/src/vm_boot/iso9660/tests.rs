//! Tests of ISO 9660 images, which xorriso and pycdlib read back.

mod any_file_names;
mod long_file_names;

use std::path::Path;
use std::process::Command;

use super::*;

const FILES: [(&str, &[u8]); 5] = [
    (
        "as/deep/as/it/can/be/for/the-longest-name-there-is-room-for-in-joliet-64-characters.json1",
        b"deep",
    ),
    ("openstack/latest/meta_data.json", b"{}"),
    ("openstack/latest/user_data", b"#cloud-config\n"),
    ("openstack/content/0000", b""),
    ("top.txt", b"top"),
];

fn write_to_disk(image: &[u8]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image.iso");
    std::fs::write(&path, image).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// Extracts the image into `into` with an independent reader of the format, and returns the files.
fn extract(image: &str, options: &[&str], into: &Path) -> Vec<(String, Vec<u8>)> {
    let into = into.to_str().unwrap();
    let output = Command::new("xorriso")
        .args(options)
        .args(["-indev", image, "-osirrox", "on", "-extract", "/", into])
        .output();
    let output = output.expect("xorriso reads images back in these tests: install xorriso");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        !stderr.contains("WARNING") && !stderr.contains("SORRY"),
        "{stderr}"
    );
    let mut found = Vec::new();
    walk(Path::new(into), "", &mut found);
    found
}

fn walk(directory: &Path, prefix: &str, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push((name, std::fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
}

/// The time now, in the format of a volume descriptor.
fn descriptor_time() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d%H%M%S").to_string()
}

fn expected() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = FILES
        .iter()
        .map(|(path, content)| ((*path).to_owned(), content.to_vec()))
        .collect();
    files.sort();
    files
}

#[test]
fn rock_ridge_and_joliet_show_the_same_files() {
    let image = image("config-2", &FILES).unwrap();
    assert_eq!(image.len() % SECTOR, 0);
    let (directory, path) = write_to_disk(&image);
    for (view, options) in [
        ("rock", &["-read_fs", "nojoliet"]),
        ("joliet", &["-read_fs", "norock"]),
    ] {
        let into = directory.path().join(view);
        assert_eq!(extract(&path, options, &into), expected(), "{view}");
    }
}

#[test]
fn label_and_size_are_in_the_volume_descriptor() {
    let before = descriptor_time();
    let image = image("cidata", &FILES).unwrap();
    let primary = &image[16 * SECTOR..17 * SECTOR];
    assert_eq!(&primary[..7], b"\x01CD001\x01");
    assert_eq!(primary[40..72].trim_ascii_end(), b"cidata");
    assert_eq!(
        u32::from_le_bytes(primary[80..84].try_into().unwrap()) as usize * SECTOR,
        image.len()
    );
    let made = std::str::from_utf8(&primary[813..827]).unwrap();
    assert!(
        (before.as_str()..=descriptor_time().as_str()).contains(&made),
        "{made}"
    );
    let joliet = &image[17 * SECTOR..18 * SECTOR];
    assert_eq!((joliet[0], &joliet[88..91]), (2, b"%/E".as_slice()));
    assert_eq!(&image[18 * SECTOR..18 * SECTOR + 6], b"\xffCD001");
}

#[test]
fn directory_listing_may_be_longer_than_a_sector() {
    let names: Vec<String> = (0..200)
        .map(|number| format!("a-rather-long-name.{number:03}"))
        .collect();
    let files: Vec<(&str, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), name.as_bytes()))
        .collect();
    let (directory, path) = write_to_disk(&image("cidata", &files).unwrap());
    for (view, options) in [
        ("rock", &["-read_fs", "nojoliet"]),
        ("joliet", &["-read_fs", "norock"]),
    ] {
        let found = extract(&path, options, &directory.path().join(view));
        assert!(found.iter().map(|(name, _)| name).eq(&names), "{view}");
        assert!(
            found
                .iter()
                .all(|(name, content)| name.as_bytes() == content),
            "{view}"
        );
    }
}

#[test]
fn long_names_are_complete_in_rock_ridge_and_distinct_in_joliet() {
    let names = ["a", "b"].map(|end| format!("{}{end}", "long-".repeat(50)));
    let files = names
        .each_ref()
        .map(|name| (name.as_str(), name.as_bytes()));
    let label = "a-label-of-32-letters-for-iso-96";
    let image = image(label, &files).unwrap();
    assert_eq!(&image[16 * SECTOR + 40..16 * SECTOR + 72], label.as_bytes());
    let short: Vec<u8> = label
        .bytes()
        .take(16)
        .flat_map(|letter| [0, letter])
        .collect();
    assert_eq!(image[17 * SECTOR + 40..17 * SECTOR + 72], short);
    let (directory, path) = write_to_disk(&image);
    let rock = extract(
        &path,
        &["-read_fs", "nojoliet"],
        &directory.path().join("rock"),
    );
    assert!(rock.iter().map(|(name, _)| name).eq(&names), "{rock:#?}");
    let joliet = extract(
        &path,
        &["-read_fs", "norock"],
        &directory.path().join("joliet"),
    );
    let contents: Vec<_> = joliet
        .iter()
        .map(|(_, content)| content.as_slice())
        .collect();
    assert_eq!(contents.len(), 2, "{joliet:#?}");
    assert!(names.iter().all(|name| contents.contains(&name.as_bytes())));
}

#[test]
fn invalid_paths_labels_and_sizes_are_errors() {
    let long = "x".repeat(256);
    let deep = "x/".repeat(8) + "y";
    for path in ["", "/a", "a/", "../a", "a//b", "nul\0", &long, &deep] {
        let error = image("cidata", &[(path, b"")]).unwrap_err();
        assert!(
            matches!(&error, Iso9660Error::Path(named) if named == path),
            "{error}"
        );
    }
    assert!(image("cidata", &[("a", b""), ("a", b"")]).is_err());
    assert!(image("cidata", &[("a", b""), ("a/b", b"")]).is_err());
    assert!(image("cidata", &[("a/b", b""), ("a", b"")]).is_err());
    assert_eq!(
        image("thirty-three-letters-in-the-label", &[])
            .unwrap_err()
            .to_string(),
        "\"thirty-three-letters-in-the-label\" is not a volume label: at most 32 ASCII characters"
    );
    let large = vec![0; MAX_CONTENT_BYTES + 1];
    let error = image("cidata", &[("a", &large)]).unwrap_err();
    assert!(
        matches!(error, Iso9660Error::TooLarge(size) if size == MAX_CONTENT_BYTES + 1),
        "{error}"
    );
}
