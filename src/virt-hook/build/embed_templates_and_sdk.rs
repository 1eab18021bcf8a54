//! Puts into the program what `new` writes: the templates, and the SDK that a Rust hook is built with, so that the program
//! suffices to build a hook. Also sets linker options that make the static program smaller.

#![allow(clippy::print_stdout, reason = "so a build script talks to Cargo")]

mod embedded_files;
mod sdk_lock_file;
mod sdk_source_tree;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use embedded_files::EmbeddedFiles;

/// The boundary between hooks and their hosts, from the workspace's root.
const WIT: &str = "hooks-sdk/wit/v0.1/hooks.wit";

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let tree = manifest_dir
        .ancestors()
        .nth(2)
        .ok_or("no tree around this crate")?;

    let mut templates = EmbeddedFiles::default();
    templates.add_below(&manifest_dir.join("templates"), Path::new(""))?;
    // In C and Go it is for reading: the bindings are made of it already, and `wrap` has it in the program.
    templates.add(&tree.join(WIT), "c/sdk/hooks.wit".into());
    templates.add(&tree.join(WIT), "go/sdk/hooks.wit".into());
    templates.watched.push(tree.join(WIT));
    fs::write(out.join("templates.tar.gz"), templates.archive()?)?;

    let sdk = sdk_source_tree::embedded(tree, &out)?;
    fs::write(out.join("sdk.tar.gz"), sdk.archive()?)?;
    fs::write(out.join("Cargo.lock"), sdk_lock_file::of_sdk(tree)?)?;
    println!(
        "cargo::rustc-env=WASMTIME_VERSION={}",
        sdk_lock_file::version(tree, "wasmtime")?
    );

    // A static program relocates itself: 1 MB of relocations becomes 0.1 MB.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build");
    for watched in templates.watched.iter().chain(&sdk.watched) {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    Ok(())
}
