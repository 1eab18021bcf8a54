//! Build script: embeds the templates of `virt-hook new` and the SDK for hooks in Rust, so that nothing else is needed
//! to build a hook. Also sets linker options that make the static program smaller.

#![allow(clippy::print_stdout, reason = "so a build script talks to Cargo")]

mod embedded_files;
mod sdk_lock_file;
mod sdk_source_tree;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use embedded_files::EmbeddedFiles;

/// The WIT packages of hooks, 0.1.0 and what 0.1.1 adds, relative to the workspace's root.
const WIT_PATHS: [&str; 2] = [
    "hooks-sdk/wit/v0.1/hooks.wit",
    "hooks-sdk/wit/v0.1.1/optional.wit",
];

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let workspace_root = manifest_dir
        .ancestors()
        .nth(2)
        .ok_or("no workspace around this crate")?;

    let mut templates = EmbeddedFiles::default();
    templates.add_below(&manifest_dir.join("templates"), Path::new(""))?;
    // Projects in C and Go get the WIT for reading only: their bindings are already generated, and `wrap` embeds the
    // WIT.
    for wit in WIT_PATHS.map(|path| workspace_root.join(path)) {
        let name = wit.file_name().ok_or("a WIT package without a file name")?;
        for language in ["c", "go"] {
            templates.add(&wit, Path::new(language).join("sdk").join(name));
        }
        templates.watched.push(wit);
    }
    fs::write(out_dir.join("templates.tar.gz"), templates.archive()?)?;

    let sdk = sdk_source_tree::collect(workspace_root, &out_dir)?;
    fs::write(out_dir.join("sdk.tar.gz"), sdk.archive()?)?;
    fs::write(
        out_dir.join("Cargo.lock"),
        sdk_lock_file::reduced_to_sdk(workspace_root)?,
    )?;
    println!(
        "cargo::rustc-env=WASMTIME_VERSION={}",
        sdk_lock_file::package_version(workspace_root, "wasmtime")?
    );

    // A static program contains its own relocations; packed, they have 0.1 MB instead of 1 MB.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build");
    for watched in templates.watched.iter().chain(&sdk.watched) {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    Ok(())
}
