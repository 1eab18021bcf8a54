//! `SecretSource`: secrets from which cloud-init data and access credentials are read.

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A file or directory cannot be read.
    #[error("reading {path}: {source}")]
    Read {
        /// The file or directory.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The name is not valid for a mounted secret.
    #[error("{0:?} is not a name of a mounted secret")]
    Name(String),
    /// No pod mounts the secret.
    #[error("secret {0} is not mounted here")]
    NotMounted(String),
}

/// Secrets as the pod mounts them: directories of files. A trait, because this crate does not access the file system.
pub trait SecretSource {
    /// The content of `DIRECTORY/NAME`; `None` if there is no such file.
    ///
    /// # Errors
    /// [`SecretError`] if the file cannot be read.
    fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, SecretError>;

    /// The sorted names of the files in a directory, without those that start with two dots.
    ///
    /// # Errors
    /// [`SecretError`] if the directory cannot be read or is missing.
    fn names(&self, directory: &str) -> Result<Vec<String>, SecretError>;
}

/// No secrets, for tools that run outside of a pod.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn file(&self, _directory: &str, _name: &str) -> Result<Option<Vec<u8>>, SecretError> {
        Ok(None)
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, SecretError> {
        Err(SecretError::NotMounted(directory.to_owned()))
    }
}
