//! The code in `src/generated` is that of the protobuf files.
//!
//! `UPDATE_GENERATED=1 cargo test -p virt-launcher-proto --test generated_code_up_to_date` regenerates it.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
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
fn generated_code_of_the_protobuf_files_is_up_to_date() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile(PROTO_FILES, [package.join("proto")]).unwrap();
    let temp_dir = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(temp_dir.path())
        .compile_fds(descriptors)
        .unwrap();
    let generated = files_in(temp_dir.path());
    let committed = package.join("src/generated");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        let stale = files_in(&committed).into_keys();
        for name in stale.filter(|name| !generated.contains_key(name)) {
            fs::remove_file(committed.join(name)).unwrap();
        }
        for (name, text) in &generated {
            fs::write(committed.join(name), text).unwrap();
        }
    }
    let in_package = files_in(&committed);
    let names: BTreeSet<_> = in_package.keys().chain(generated.keys()).collect();
    let different: Vec<_> = names
        .into_iter()
        .filter(|name| in_package.get(*name) != generated.get(*name))
        .collect();
    assert!(
        different.is_empty(),
        "{different:?} in {} are not what proto/ gives: run \
         UPDATE_GENERATED=1 cargo test -p virt-launcher-proto --test generated_code_up_to_date",
        committed.display()
    );
}

#[test]
fn every_protobuf_file_is_compiled() {
    fn names_below(root: &Path, directory: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                names_below(root, &path, names);
            } else {
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
