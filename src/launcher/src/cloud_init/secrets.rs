//! Secrets as the kubelet mounts them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::cloud_init::SecretSource;

/// Kubernetes limits a secret to a mebibyte.
const MAX_BYTES: u64 = 1024 * 1024;

/// The directory below which secrets are mounted; KubeVirt's is `/var/run/kubevirt-private/secret`.
#[derive(Debug, Clone)]
pub struct SecretDirectory(pub PathBuf);

impl SecretSource for SecretDirectory {
    fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, String> {
        let path = self.below(directory)?.join(name);
        match read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("reading {}: {error}", path.display())),
        }
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, String> {
        let path = self.below(directory)?;
        names(&path).map_err(|error| format!("reading {}: {error}", path.display()))
    }
}

impl SecretDirectory {
    /// Names of volumes and secrets come from the VMI.
    fn below(&self, directory: &str) -> Result<PathBuf, String> {
        if directory.is_empty() || directory.contains(['/', '\0']) || directory.starts_with("..") {
            return Err(format!("{directory:?} is no name of a mounted secret"));
        }
        Ok(self.0.join(directory))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(
            "more than a mebibyte, the most a secret holds",
        ));
    }
    Ok(bytes)
}

/// Without the kubelet's own `..data` and its kin, which the visible names are links into.
fn names(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.file_type()?.is_dir() && !name.starts_with("..") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
