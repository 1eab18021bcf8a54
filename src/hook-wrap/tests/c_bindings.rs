//! The C bindings that the template and the example bring are those of the WIT.
//!
//! `UPDATE_BINDINGS=1 cargo test -p hook-wrap --test c_bindings` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::Files;

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../virt-hook/templates/c/sdk")
}

/// Name and text of each file.
fn generated() -> Vec<(String, String)> {
    let (mut resolve, world) = hook_wrap::world().unwrap();
    let options = wit_bindgen_c::Opts {
        // The world is laid over the module when it is wrapped: no object file has to be kept beside the sources.
        no_object_file: true,
        ..wit_bindgen_c::Opts::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, world, &mut files)
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    files
        .iter()
        .map(|(name, bytes)| (name.to_owned(), without_object_file(&text(bytes))))
        .collect()
}

/// The last lines ask the linker for the object file all the same.
fn without_object_file(text: &str) -> String {
    let asks = "\n// Ensure that the *_component_type.o object is linked in\n";
    text.split(asks).next().unwrap().to_owned()
}

#[test]
fn the_c_bindings_are_those_of_the_wit() {
    let generated = generated();
    let names: Vec<&str> = generated.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hook.c", "hook.h"]);
    for (name, text) in &generated {
        let path = sdk().join("bindings").join(name);
        if std::env::var_os("UPDATE_BINDINGS").is_some() {
            fs::write(&path, text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == *text,
            "{} is not what the WIT gives: run UPDATE_BINDINGS=1 cargo test -p hook-wrap --test c_bindings",
            path.display()
        );
    }
}
