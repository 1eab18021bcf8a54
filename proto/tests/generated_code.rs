//! The code in `src/generated` is that of the protobuf files.
//!
//! `UPDATE_PROTO=1 cargo test -p virt-launcher-proto --test generated_code` generates it again.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

const PROTO_FILES: [&str; 10] = [
    "kubevirt/cmd/info.proto",
    "kubevirt/cmd/v1.proto",
    "kubevirt/hooks/info.proto",
    "kubevirt/hooks/plugins/v1alpha1.proto",
    "kubevirt/hooks/v1alpha1.proto",
    "kubevirt/hooks/v1alpha2.proto",
    "kubevirt/hooks/v1alpha3.proto",
    "kubevirt/nbd.proto",
    "kubevirt/notify/info.proto",
    "kubevirt/notify/v1.proto",
];

fn files_in(directory: &Path) -> BTreeMap<OsString, String> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = entries.map(|entry| (entry.file_name(), fs::read_to_string(entry.path()).unwrap()));
    files.collect()
}

#[test]
fn generated_code_is_that_of_the_protobuf_files() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile(PROTO_FILES, [package.join("proto")]).unwrap();
    let temp_dir = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(temp_dir.path())
        .compile_fds(descriptors)
        .unwrap();
    let generated = files_in(temp_dir.path());
    let committed = package.join("src/generated");
    if std::env::var_os("UPDATE_PROTO").is_some() {
        for (name, text) in &generated {
            fs::write(committed.join(name), text).unwrap();
        }
    }
    assert!(
        files_in(&committed) == generated,
        "{} is not what proto/ gives: run UPDATE_PROTO=1 cargo test -p virt-launcher-proto --test generated_code",
        committed.display()
    );
}

#[test]
fn every_protobuf_file_is_compiled() {
    fn names_below(root: &Path, directory: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                names_below(root, &entry.path(), names);
            } else {
                let path = entry.path();
                names.push(
                    path.strip_prefix(root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut names = Vec::new();
    names_below(&root, &root, &mut names);
    names.sort();
    assert_eq!(names, PROTO_FILES);
}
