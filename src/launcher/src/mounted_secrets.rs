//! Reads secrets from the directories where the kubelet mounts them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::secret_source::{SecretError, SecretSource};

/// Maximum size of a secret in Kubernetes, in bytes.
const MAX_SECRET_BYTES: u64 = 1024 * 1024;

/// The directory that contains the mounts of secrets. KubeVirt's is `/var/run/kubevirt-private/secret`.
#[derive(Debug, Clone)]
pub struct MountedSecrets(pub PathBuf);

impl SecretSource for MountedSecrets {
    fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, SecretError> {
        let path = self.secret_path(directory)?.join(name);
        match read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(unreadable(&path, source)),
        }
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, SecretError> {
        let path = self.secret_path(directory)?;
        names(&path).map_err(|source| unreadable(&path, source))
    }
}

impl MountedSecrets {
    /// The path of a secret's directory. The name is checked, because it comes from the VMI.
    fn secret_path(&self, directory: &str) -> Result<PathBuf, SecretError> {
        if directory.is_empty() || directory.contains(['/', '\0']) || directory.starts_with("..") {
            return Err(SecretError::Name(directory.to_owned()));
        }
        Ok(self.0.join(directory))
    }
}

fn unreadable(path: &Path, source: io::Error) -> SecretError {
    SecretError::Read {
        path: path.display().to_string(),
        source,
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_SECRET_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return Err(io::Error::other(
            "more than a mebibyte, the most a secret holds",
        ));
    }
    Ok(bytes)
}

/// The names of the files, without the kubelet's own entries such as `..data`, to which the other names are links.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mounted_secrets_are_read_and_names_are_checked() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("ci");
        fs::create_dir_all(mount.join("..2026")).unwrap();
        fs::write(mount.join("..2026/userdata"), "secret").unwrap();
        symlink("..2026", mount.join("..data")).unwrap();
        symlink("..data/userdata", mount.join("userdata")).unwrap();
        fs::write(mount.join("large"), vec![0; 1024 * 1024 + 1]).unwrap();
        let secrets = MountedSecrets(root.path().to_owned());
        assert_eq!(secrets.names("ci").unwrap(), ["large", "userdata"]);
        assert_eq!(secrets.file("ci", "userdata").unwrap().unwrap(), b"secret");
        assert_eq!(secrets.file("ci", "userData").unwrap(), None);
        assert!(
            secrets
                .file("ci", "large")
                .unwrap_err()
                .to_string()
                .contains("mebibyte")
        );
        let missing = secrets.names("gone").unwrap_err();
        assert!(missing.to_string().contains("gone"));
        for name in ["../ci", "", "/etc"] {
            assert!(secrets.file(name, "passwd").is_err());
        }
    }
}
