//! The hooks-sdk of a new Rust project: embedded in this program, or a directory.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fmt, io};

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::GzDecoder;

/// The directory of the SDK's sources in a project.
pub(super) const DIRECTORY: &str = "sdk";
/// The version of the SDK, which is that of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The source of the SDK of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SdkSource {
    /// The embedded SDK, which is written into the project.
    Embedded,
    /// The directory that `--sdk` names.
    Path(String),
    /// The SDK of the workspace that the project joins.
    Workspace,
}

impl SdkSource {
    pub(super) fn from_option(sdk_option: Option<&Path>) -> Result<Self> {
        let Some(path) = sdk_option else {
            return Ok(Self::Embedded);
        };
        let path = path
            .canonicalize()
            .with_context(|| path.display().to_string())?;
        if !path.join("Cargo.toml").is_file() {
            let path = path.display();
            bail!("{path}: no Cargo.toml there: give the directory of hooks-sdk");
        }
        let path = path.into_os_string().into_string();
        let path = path.map_err(|path| anyhow!("{}: it is not UTF-8", Path::new(&path).display()));
        path.map(Self::Path)
    }

    /// The SDK of a project in a workspace.
    pub(super) fn of_workspace(sdk_option: Option<&Path>) -> Result<Self> {
        match sdk_option {
            None => Ok(Self::Workspace),
            Some(_) => bail!(
                "the project joins the workspace around it, which has an SDK: leave --sdk out"
            ),
        }
    }

    /// The right side of the dependency in `Cargo.toml`.
    pub(super) fn dependency(&self) -> String {
        match self {
            Self::Embedded => {
                format!("{{ version = {VERSION:?}, path = \"{DIRECTORY}/hooks-sdk\" }}")
            }
            Self::Path(path) => format!("{{ path = {path:?} }}"),
            Self::Workspace => "{ workspace = true }".to_owned(),
        }
    }

    /// The SDK's files in the project, relative to the project.
    pub(super) fn files(&self) -> Vec<(PathBuf, &'static [u8])> {
        if *self != Self::Embedded {
            return Vec::new();
        }
        let files = SDK.iter();
        let files = files.map(|file| {
            let path = Path::new(DIRECTORY).join(file.path());
            (path, file.bytes.as_slice())
        });
        files
            .chain([(PathBuf::from("Cargo.lock"), SDK_LOCK)])
            .collect()
    }
}

impl fmt::Display for SdkSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => write!(f, "{VERSION}, in {DIRECTORY}/"),
            Self::Path(path) => f.write_str(path),
            Self::Workspace => f.write_str("that of the workspace"),
        }
    }
}

/// An embedded file.
#[derive(Debug)]
pub(super) struct EmbeddedFile {
    /// The path in the archive.
    path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// The templates of all languages, each below its directory.
pub(super) static TEMPLATES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(|| {
    unpack_own(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/templates.tar.gz"
    )))
});
/// hooks-sdk and its dependencies in this workspace, as a source tree.
pub(super) static SDK: LazyLock<Vec<EmbeddedFile>> =
    LazyLock::new(|| unpack_own(include_bytes!(concat!(env!("OUT_DIR"), "/sdk.tar.gz"))));
/// The lock file with the versions that the SDK was tested with.
pub(super) static SDK_LOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/Cargo.lock"));

impl EmbeddedFile {
    /// The path relative to a directory, if the file is in it.
    pub(super) fn below(&self, directory: &str) -> Option<&Path> {
        self.path.strip_prefix(directory).ok()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn unpack_own(archive: &[u8]) -> Vec<EmbeddedFile> {
    unpack(archive).expect("the archive is the build script's own")
}

fn unpack(archive: &[u8]) -> io::Result<Vec<EmbeddedFile>> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let files = archive.entries()?.map(|entry| {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        Ok(EmbeddedFile { path, bytes })
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_sdk_is_used_without_an_sdk_option() {
        let embedded = SdkSource::from_option(None).unwrap();
        assert!(
            embedded
                .dependency()
                .ends_with("path = \"sdk/hooks-sdk\" }")
        );
        let files = embedded.files();
        for needed in [
            "Cargo.lock",
            "sdk/LICENSE",
            "sdk/Cargo.toml",
            "sdk/hooks-sdk/Cargo.toml",
            "sdk/hooks-sdk/wit/v0.1/hooks.wit",
            "sdk/hooks-sdk/macros/src/lib.rs",
            "sdk/hooks-sdk/testing/src/lib.rs",
            "sdk/src/domain-xml/src/lib.rs",
            "sdk/src/quantity/src/lib.rs",
            "sdk/src/hook-host/src/lib.rs",
            "sdk/proto/src/generated/kubevirt.cmd.v1.rs",
        ] {
            let is_embedded = files.iter().any(|(path, _)| path == Path::new(needed));
            assert!(is_embedded, "no {needed}");
        }
        // Only their generated code is compiled.
        let is_proto = |(path, _): &(PathBuf, _)| path.extension().is_some_and(|e| e == "proto");
        assert!(!files.iter().any(is_proto), "protobuf files are embedded");
        let sdk = SdkSource::from_option(Some(Path::new("../../hooks-sdk"))).unwrap();
        let dependency = sdk.dependency();
        assert!(
            dependency.starts_with("{ path = \"/") && dependency.ends_with("hooks-sdk\" }"),
            "{dependency}"
        );
        assert!(sdk.files().is_empty());
    }

    /// Keys for the development of this workspace are left out, and tables from which no crate of the SDK inherits.
    #[test]
    fn embedded_manifests_are_reduced_to_what_the_sdk_needs() {
        let files = SdkSource::Embedded.files();
        let manifests = files
            .iter()
            .filter(|(path, _)| path.ends_with("Cargo.toml"));
        let text: String = manifests
            .map(|(_, bytes)| std::str::from_utf8(bytes).unwrap())
            .collect();
        for absent in [
            "dev-dependencies",
            "[lints]",
            "[[",
            "[profile",
            "virt-sys",
            "clap",
        ] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }

    #[test]
    fn error_contains_the_path_of_a_directory_without_sdk() {
        let error = SdkSource::from_option(Some(Path::new("/nonexistent"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }
}
