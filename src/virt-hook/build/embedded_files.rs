//! Files that become part of the program.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What tools leave beside sources.
const LEFT_BEHIND: [&str; 2] = ["__pycache__", "target"];

/// Files, with their paths in the project.
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    files: Vec<(PathBuf, PathBuf)>,
    /// What this depends on.
    pub(crate) watched: Vec<PathBuf>,
}

impl Embedded {
    /// One file.
    pub(crate) fn add(&mut self, source: &Path, embedded_path: PathBuf) {
        self.files.push((embedded_path, source.to_owned()));
    }

    /// All files below a directory.
    pub(crate) fn add_below(&mut self, directory: &Path, embedded_path: &Path) -> io::Result<()> {
        self.watched.push(directory.to_owned());
        self.add_all(directory, embedded_path)
    }

    fn add_all(&mut self, directory: &Path, embedded_path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if LEFT_BEHIND.iter().any(|left| name == *left) {
                continue;
            }
            let embedded_path = embedded_path.join(name);
            if path.is_dir() {
                self.add_all(&path, &embedded_path)?;
            } else {
                self.add(&path, embedded_path);
            }
        }
        Ok(())
    }

    /// An expression: all of them, in order.
    pub(crate) fn source(&self) -> String {
        let mut files = self.files.clone();
        files.sort();
        let files = files.iter().map(|(embedded_path, source)| {
            format!("    File {{ path: {embedded_path:?}, bytes: include_bytes!({source:?}) }},\n")
        });
        format!("&[\n{}]\n", files.collect::<String>())
    }
}
