//! Tests of long file names, whose Rock Ridge entries continue outside the directory record: what Linux demands of
//! their place, and the files that pycdlib finds, which is as strict as Linux.

use super::*;

/// Numbers of files and the length of their names: few, as many as one block has room for, and several blocks; the
/// longest that a ConfigMap's key can have is 253 characters, that a file in Linux can have 255.
const ROWS: [(usize, usize); 8] = [
    (1, 255),
    (13, 130),
    (14, 130),
    (60, 130),
    (12, 205),
    (7, 253),
    (60, 255),
    (300, 200),
];

/// Lists every file by its Rock Ridge path, with its content in hexadecimal digits.
const LIST_FILES: &str = "
import io, sys, pycdlib
iso = pycdlib.PyCdlib()
iso.open(sys.argv[1])
for directory, _, names in iso.walk(rr_path='/'):
    for name in names:
        path = directory.rstrip('/') + '/' + name
        content = io.BytesIO()
        iso.get_file_from_iso_fp(content, rr_path=path)
        print(path[1:], content.getvalue().hex())
";

fn names(count: usize, length: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{number:04}{}", "k".repeat(length - 4)))
        .collect()
}

/// In two directories, of which one is not the root.
fn image_of(names: &[String]) -> Vec<u8> {
    let paths: Vec<String> = names
        .iter()
        .flat_map(|name| [name.clone(), format!("..data/{name}")])
        .collect();
    let files: Vec<(&str, &[u8])> = paths
        .iter()
        .map(|path| (path.as_str(), path.as_bytes()))
        .collect();
    image("cfgdata", &files).unwrap()
}

/// A number of 32 bits in both byte orders.
fn both_orders(bytes: &[u8]) -> Option<usize> {
    let (little, big) = bytes.split_at(4);
    let little = u32::from_le_bytes(little.try_into().ok()?);
    (little == u32::from_be_bytes(big.try_into().ok()?)).then_some(little as usize)
}

/// Block, offset and length of every continuation area: wherever bytes look like an entry `CE`.
fn continuation_areas(image: &[u8]) -> Vec<[usize; 3]> {
    let entries = image
        .windows(28)
        .filter(|bytes| bytes.starts_with(b"CE\x1c\x01"));
    let area = |entry: &[u8]| {
        Some([
            both_orders(&entry[4..12])?,
            both_orders(&entry[12..20])?,
            both_orders(&entry[20..28])?,
        ])
    };
    entries.filter_map(area).collect()
}

#[test]
fn no_continuation_area_crosses_the_end_of_a_block() {
    for (count, length) in ROWS {
        let image = image_of(&names(count, length));
        let areas = continuation_areas(&image);
        // One each, in two directories; and one for the root directory itself.
        assert!(areas.len() > 2 * count, "{count} of {length}: {areas:?}");
        for [block, offset, bytes] in areas {
            assert!(
                offset + bytes <= SECTOR && (block + 1) * SECTOR <= image.len(),
                "{count} of {length}: block {block}, offset {offset}, {bytes} bytes"
            );
        }
        for descriptor in [16, 17] {
            let blocks = both_orders(&image[descriptor * SECTOR + 80..][..8]);
            assert_eq!(blocks.map(|blocks| blocks * SECTOR), Some(image.len()));
        }
    }
}

#[test]
fn strict_reader_finds_every_file_with_a_long_name() {
    for (count, length) in ROWS {
        let names = names(count, length);
        let (_directory, path) = write_to_disk(&image_of(&names));
        // Debian's Python, since its package python3-pycdlib is for no other.
        let output = Command::new("/usr/bin/python3")
            .args(["-c", LIST_FILES, &path])
            .output()
            .expect("pycdlib reads images back in these tests: scripts/setup installs it");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{count} of {length}: {stderr}");
        let listing = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<&str> = listing.lines().collect();
        found.sort_unstable();
        let mut expected: Vec<String> = names
            .iter()
            .flat_map(|name| [name.clone(), format!("..data/{name}")])
            .map(|path| format!("{path} {}", to_hex(path.as_bytes())))
            .collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{count} of {length}");
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
