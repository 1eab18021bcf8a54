//! The Rust bindings in hooks-sdk are those of the WIT.
//!
//! `UPDATE_GENERATED=1 cargo test -p hook-wrap --test rust_bindings_up_to_date` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_parser::Resolve;

/// The newest world: the one of 0.1.0 with every optional interface.
const WORLD: &str = "virt-hook:hooks/hook@0.1.1";

fn hooks_sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hooks-sdk")
}

fn generated() -> String {
    let mut resolve = Resolve::default();
    let mut packages = Vec::new();
    for directory in ["wit/v0.1", "wit/v0.1.1"] {
        let (package, _) = resolve.push_dir(hooks_sdk().join(directory)).unwrap();
        packages.push(package);
    }
    let world = resolve.select_world(&packages, Some(WORLD)).unwrap();
    let options = wit_bindgen_rust::Opts {
        format: true,
        generate_all: true,
        pub_export_macro: true,
        export_macro_name: Some("export_component".to_owned()),
        ..wit_bindgen_rust::Opts::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, world, &mut files)
        .unwrap();
    let [(_, text)]: [(&str, &[u8]); 1] = files.iter().collect::<Vec<_>>().try_into().unwrap();
    String::from_utf8(text.to_vec()).unwrap()
}

#[test]
fn rust_bindings_of_the_sdk_are_up_to_date() {
    let path = hooks_sdk().join("src/bindings/generated.rs");
    let generated = generated();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == generated,
        "{} is not what the WIT gives: run UPDATE_GENERATED=1 cargo test -p hook-wrap --test rust_bindings_up_to_date",
        path.display()
    );
}
