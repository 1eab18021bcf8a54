//! The options of loading modules.

use std::path::PathBuf;

use super::Compiler;
use crate::Limits;

/// Options of loading modules.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Limits of modules.
    pub limits: Limits,
    /// Which process compiles modules.
    pub compiler: Compiler,
    /// The directory of compiled modules. It is created with mode 0700, and refused if other users can write to it.
    /// With `None`, compiled modules are not kept.
    pub artifacts_dir: Option<PathBuf>,
    /// The directory in which a compile child keeps the code of functions for the next compilation of the same module
    /// file, in [`functions_file`](super::functions_file). It has the same permissions as the directory of compiled
    /// modules, and is for the machines of authors.
    pub functions_dir: Option<PathBuf>,
    /// Directories of the image with artifacts that [`precompile`](super::precompile) wrote, in search
    /// order. An artifact is skipped with a log line unless it matches and is protected like the image's
    /// programs: owned by root, writable by root only, and on the program's mount.
    pub precompiled_dirs: Vec<PathBuf>,
    /// Name and version of the host for hooks that query it, such as `virt-launcher/0.1.0`.
    pub host_name: String,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            compiler: Compiler::InProcess,
            artifacts_dir: None,
            functions_dir: None,
            precompiled_dirs: Vec::new(),
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
