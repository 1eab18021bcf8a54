//! The files that are embedded in the program, as an archive.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::{fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Directories of build output, which are not embedded.
const BUILD_OUTPUT: [&str; 2] = ["__pycache__", "target"];

/// Files to embed.
#[derive(Debug, Default)]
pub(crate) struct EmbeddedFiles {
    /// The path of each file in the archive, and the path of its source.
    files: Vec<(PathBuf, PathBuf)>,
    /// Paths whose changes make Cargo run the build script again.
    pub(crate) watched: Vec<PathBuf>,
}

impl EmbeddedFiles {
    /// Adds a file.
    pub(crate) fn add(&mut self, source: &Path, embedded_path: PathBuf) {
        self.files.push((embedded_path, source.to_owned()));
    }

    /// Adds and watches all files below a directory.
    pub(crate) fn add_below(&mut self, directory: &Path, embedded_path: &Path) -> io::Result<()> {
        self.watched.push(directory.to_owned());
        self.add_all(directory, embedded_path)
    }

    fn add_all(&mut self, directory: &Path, embedded_path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            if BUILD_OUTPUT.iter().any(|output| name == *output) {
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

    /// Packs the sorted files into a compressed tar archive; equal files give equal bytes.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut files = self.files.clone();
        files.sort();
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
        for (embedded_path, source) in files {
            let bytes = fs::read(source)?;
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len().try_into().map_err(io::Error::other)?);
            header.set_mode(0o644);
            archive.append_data(&mut header, embedded_path, Cursor::new(bytes))?;
        }
        archive.into_inner()?.finish()
    }
}
