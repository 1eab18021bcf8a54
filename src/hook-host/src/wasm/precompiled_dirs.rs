//! Finds artifacts that were compiled when a container image was built and are part of the image.
//!
//! An artifact is machine code that runs with this program's rights, so its owner, permissions and location decide
//! whether it is used ([`super::precompiled_file_trust`]). The file name is
//! `MODULE-ENGINE-CONTENT.cwasm`: the sha256 of the module, a hash of the engine settings that affect
//! machine code, and a checksum of the file itself. An artifact that does not match is skipped with
//! a log line, and the module is compiled instead.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifact_cache::{self, engine_key};
use super::file_digest;
use super::precompiled_file_trust::{FileTrust, Untrusted};

/// The directories to search: `configured` if it is given, otherwise `default` if it exists.
#[must_use]
pub fn precompiled_dirs(configured: Option<&Path>, default: &Path) -> Vec<PathBuf> {
    match configured {
        Some(dir) => vec![dir.to_owned()],
        None if default.is_dir() => vec![default.to_owned()],
        None => Vec::new(),
    }
}

/// The trusted directories of an image that may hold artifacts.
pub(super) struct PrecompiledDirs {
    trust: Option<FileTrust>,
    dirs: Vec<PathBuf>,
}

impl PrecompiledDirs {
    pub(super) fn open(dirs: &[PathBuf]) -> Self {
        if dirs.is_empty() {
            return Self {
                trust: None,
                dirs: Vec::new(),
            };
        }
        match FileTrust::of_this_program() {
            Ok(trust) => Self::with_trust(trust, dirs),
            Err(untrusted) => {
                tracing::warn!(?dirs, %untrusted, "precompiled artifacts are not used");
                Self::open(&[])
            }
        }
    }

    fn with_trust(trust: FileTrust, dirs: &[PathBuf]) -> Self {
        let trusted = |dir: &PathBuf| match trust.check_directory(dir) {
            Ok(dir) => Some(dir),
            Err(untrusted) => {
                let dir = dir.display();
                tracing::warn!(%dir, %untrusted, "no precompiled artifact of this directory is used");
                None
            }
        };
        Self {
            trust: Some(trust),
            dirs: dirs.iter().filter_map(trusted).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// The code of the module with this digest, if a directory has an artifact that is trusted and
    /// intact. Log lines name the module file `module`.
    pub(super) fn find(
        &self,
        engine: &Engine,
        digest: &str,
        module: &Path,
    ) -> Option<(Component, PathBuf)> {
        let module = module.display();
        let mut has_artifact = false;
        for path in self.dirs.iter().flat_map(|dir| artifacts_of(dir, digest)) {
            has_artifact = true;
            match self.load(engine, digest, &path) {
                Ok(component) => {
                    tracing::info!(%module, artifact = %path.display(), "a precompiled artifact is used");
                    return Some((component, path));
                }
                Err(reason) => {
                    let artifact = path.display();
                    tracing::warn!(%module, %artifact, %reason, "a precompiled artifact is not used");
                }
            }
        }
        if !has_artifact && !self.is_empty() {
            tracing::info!(%module, digest, dirs = ?self.dirs, "no precompiled artifact of this module");
        }
        None
    }

    fn load(&self, engine: &Engine, digest: &str, path: &Path) -> Result<Component, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let expected = expected_checksum(&name, digest, &engine_key(engine)).map_err(|reason| {
            let file = self.open_trusted(path).ok();
            file.and_then(|file| other_architecture(&file))
                .unwrap_or(reason)
        })?;
        let file = self
            .open_trusted(path)
            .map_err(|untrusted| untrusted.to_string())?;
        let checksum = file_digest::checksum(&file).map_err(|error| error.to_string())?;
        if checksum != expected {
            return Err(
                "it is truncated or was altered: its content is not what its name says".into(),
            );
        }
        artifact_cache::load(engine, &file).map_err(|error| format!("{error:#}"))
    }

    fn open_trusted(&self, path: &Path) -> Result<File, Untrusted> {
        let io = |source| Untrusted::Io {
            path: path.to_owned(),
            source,
        };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(io)?;
        match &self.trust {
            Some(trust) => trust.check_file(&file, path).map(|()| file),
            None => Err(Untrusted::OldKernel),
        }
    }
}

/// Names in Rust and in Kubernetes of the architectures of nodes, with their number in the header of an ELF file.
const ARCHITECTURES: [(&str, &str, u16); 3] = [
    ("x86_64", "amd64", 62),
    ("aarch64", "arm64", 183),
    ("s390x", "s390x", 22),
];

/// Why an artifact is not for this program, if it is one for another architecture: by the header of an ELF file, in the
/// byte order that it names.
fn other_architecture(artifact: &File) -> Option<String> {
    let mut header = [0; 20];
    artifact.read_exact_at(&mut header, 0).ok()?;
    let number = [header[18], header[19]];
    let number = match (header.starts_with(b"\x7fELF"), header[5]) {
        (true, 1) => u16::from_le_bytes(number),
        (true, 2) => u16::from_be_bytes(number),
        _ => return None,
    };
    let own = ARCHITECTURES
        .iter()
        .find(|(rust, ..)| *rust == std::env::consts::ARCH)?;
    let of_artifact = ARCHITECTURES.iter().find(|(.., known)| *known == number)?;
    (of_artifact != own).then(|| {
        format!(
            "it is for {}, and this program is for {}: compile the module on such a machine",
            of_artifact.1, own.1
        )
    })
}

/// The artifacts of one module in a directory, whatever engine they are for.
fn artifacts_of(dir: &Path, digest: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(digest))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// The checksum in a file name, if the digest and the engine key in the name match.
fn expected_checksum<'a>(name: &'a str, digest: &str, key: &str) -> Result<&'a str, String> {
    let parts = name
        .strip_suffix(".cwasm")
        .map(|name| name.split('-').collect::<Vec<_>>());
    match parts.as_deref() {
        Some([module, engine, content]) if *module == digest => {
            if *engine == key {
                return Ok(content);
            }
            Err(format!(
                "it is for another engine ({engine}, this one is {key}): compile it again with this version of virt-hook"
            ))
        }
        _ => Err("its name is not MODULE-ENGINE-CONTENT.cwasm".into()),
    }
}

#[cfg(test)]
mod tests;
