//! Property tests of ISO 9660 images with any file names.

use proptest::prelude::*;

use super::*;

/// File names that contain separators of ISO 9660, or are too long for it.
fn any_name() -> impl Strategy<Value = String> {
    let short = prop_oneof![
        "[a-zA-Z0-9._;~ -]{1,12}",
        "\\PC{1,8}",
        "[a.]{1,4}\\.[A;]{1,4}",
        "x{60,70}[ab]",
    ];
    short.prop_filter("no name", |name| {
        !matches!(name.as_str(), "." | "..") && !name.contains(['/', '\0'])
    })
}

fn any_files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let path = prop::collection::vec(any_name(), 1..4).prop_map(|parts| parts.join("/"));
    let content = prop::collection::vec(any::<u8>(), 0..3000);
    prop::collection::btree_map(path, content, 0..8).prop_map(|files| files.into_iter().collect())
}

fn image_of(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, Iso9660Error> {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(path, content)| (path.as_str(), content.as_slice()))
        .collect();
    image("cfgdata", &files)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    /// Linux sees every file with its whole name.
    #[test]
    fn encoding_round_trips(files in any_files()) {
        // The only possible error is a file with the path of a directory.
        if let Ok(image) = image_of(&files) {
            let (directory, path) = write_to_disk(&image);
            let found = extract(&path, &["-read_fs", "nojoliet"], &directory.path().join("rock"));
            prop_assert_eq!(found, files);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_name_is_written_without_a_panic(files in any_files()) {
        match image_of(&files) {
            Ok(image) => prop_assert_eq!(image.len() % SECTOR, 0),
            Err(error) => prop_assert!(matches!(error, Iso9660Error::Path(_)), "{}", error),
        }
    }
}
