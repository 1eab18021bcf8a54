//! The C bindings in virt-hook's C template are those that wit-bindgen generates from the WIT.
//!
//! `UPDATE_GENERATED=1 cargo test -p hook-wrap --test c_bindings_up_to_date` regenerates them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::Files;

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../virt-hook/templates/c/sdk")
}

/// Names and texts of the generated files.
fn generated() -> Vec<(String, String)> {
    let (mut resolve, world) = hook_wrap::world().unwrap();
    let options = wit_bindgen_c::Opts {
        // `wrap` adds the world to the module, so no object file has to be kept beside the sources.
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

/// Removes the last lines of `hook.c`, which refer to the object file that is not generated.
fn without_object_file(text: &str) -> String {
    let object_file_reference = "\n// Ensure that the *_component_type.o object is linked in\n";
    text.split(object_file_reference).next().unwrap().to_owned()
}

#[test]
fn c_bindings_of_the_template_are_up_to_date() {
    let generated = generated();
    let names: Vec<&str> = generated.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hook.c", "hook.h"]);
    for (name, text) in &generated {
        let path = sdk().join("bindings").join(name);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(&path, text).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == *text,
            "{} is not what the WIT gives: run UPDATE_GENERATED=1 cargo test -p hook-wrap --test c_bindings_up_to_date",
            path.display()
        );
    }
}
