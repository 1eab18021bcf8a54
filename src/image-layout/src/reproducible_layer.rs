//! Builds a layer: a tar archive whose bytes depend on its content only.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::rc::Rc;

use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use crate::{Capabilities, Digest, ImageError, sha256};

/// The key of file capabilities in a PAX header, as GNU tar and container engines write it.
const CAPABILITY: &str = "SCHILY.xattr.security.capability";

/// Files, directories and links of one layer, by their paths in the image without the leading `/`. All belong to root.
#[derive(Debug, Default)]
pub struct Layer(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    mode: u32,
    capabilities: Option<Capabilities>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Directory,
    File(Vec<u8>),
    Link(String),
}

/// A compressed layer, which images can share.
#[derive(Debug, Clone)]
pub struct CompressedLayer(pub(crate) Rc<LayerBlob>);

#[derive(Debug)]
pub(crate) struct LayerBlob {
    /// The gzip-compressed archive.
    pub(crate) content: Vec<u8>,
    /// The digest of the compressed archive.
    pub(crate) digest: Digest,
    /// The digest of the uncompressed archive.
    pub(crate) diff_id: Digest,
}

impl CompressedLayer {
    /// The size of the compressed layer in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.content.len()
    }
}

impl Layer {
    /// An empty layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory. Parent directories that are not added keep the base's owner and mode.
    pub fn directory(&mut self, path: &str, mode: u32) -> Result<(), ImageError> {
        self.add(path, mode, None, Content::Directory)
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> Result<(), ImageError> {
        self.add(path, mode, None, Content::File(content))
    }

    /// Adds a program with file capabilities.
    pub fn capable_file(
        &mut self,
        path: &str,
        mode: u32,
        content: Vec<u8>,
        capabilities: Capabilities,
    ) -> Result<(), ImageError> {
        self.add(path, mode, Some(capabilities), Content::File(content))
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), ImageError> {
        self.add(path, 0o777, None, Content::Link(target.to_owned()))
    }

    /// Adds the files and directories below `source`, with the modes 0644 and 0755. Links are followed if
    /// they lead to files or directories; anything else is refused.
    pub fn tree(&mut self, path: &str, source: &Path) -> Result<(), ImageError> {
        self.directory(path, 0o755)?;
        for entry in fs::read_dir(source).map_err(ImageError::io(source))? {
            let entry = entry.map_err(ImageError::io(source))?.path();
            let name = entry.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| {
                invalid_entry(&entry.display().to_string(), "its name is not UTF-8")
            })?;
            let inside = format!("{path}/{name}");
            let metadata = fs::metadata(&entry).map_err(ImageError::io(&entry))?;
            if metadata.is_dir() {
                self.tree(&inside, &entry)?;
            } else if metadata.is_file() {
                let content = fs::read(&entry).map_err(ImageError::io(&entry))?;
                self.file(&inside, 0o644, content)?;
            } else {
                return Err(invalid_entry(
                    &inside,
                    "it is neither a file nor a directory",
                ));
            }
        }
        Ok(())
    }

    /// Writes the files, directories and links into a new directory, without owners and file capabilities (they need
    /// root).
    pub fn write_tree(&self, directory: &Path) -> Result<(), ImageError> {
        fs::create_dir(directory).map_err(ImageError::io(directory))?;
        for (path, entry) in &self.0 {
            let path = directory.join(path);
            let parent = path.parent().unwrap_or(directory);
            fs::create_dir_all(parent).map_err(ImageError::io(parent))?;
            let result = match &entry.content {
                Content::Directory => fs::create_dir_all(&path),
                Content::File(content) => {
                    fs::File::create_new(&path).and_then(|mut file| file.write_all(content))
                }
                Content::Link(target) => symlink(target, &path),
            };
            result.map_err(ImageError::io(&path))?;
            if !matches!(entry.content, Content::Link(_)) {
                let mode = Permissions::from_mode(entry.mode);
                fs::set_permissions(&path, mode).map_err(ImageError::io(&path))?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: &str,
        mode: u32,
        capabilities: Option<Capabilities>,
        content: Content,
    ) -> Result<(), ImageError> {
        let names = path.strip_prefix('/').map(|rest| rest.split('/'));
        let is_clean =
            names.is_some_and(|mut names| names.all(|name| !["", ".", ".."].contains(&name)));
        if !is_clean {
            return Err(invalid_entry(
                path,
                "it is not an absolute path without . and ..",
            ));
        }
        let entry = Entry {
            mode,
            capabilities,
            content,
        };
        match self.0.insert(path[1..].to_owned(), entry) {
            None => Ok(()),
            Some(_) => Err(invalid_entry(path, "it is there twice")),
        }
    }

    /// Writes and compresses the archive. This takes long, so images with the same layer share the result.
    pub fn compress(&self) -> Result<CompressedLayer, ImageError> {
        self.blob()
            .map(|blob| CompressedLayer(Rc::new(blob)))
            .map_err(ImageError::Layer)
    }

    fn blob(&self) -> io::Result<LayerBlob> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            append(&mut archive, path, entry)?;
        }
        let archive = archive.into_inner()?;
        // The time and the operating system in the header are fixed, so that the bytes are reproducible.
        let mut compressor = GzBuilder::new()
            .mtime(0)
            .operating_system(255)
            .write(Vec::new(), Compression::best());
        compressor.write_all(&archive)?;
        let content = compressor.finish()?;
        Ok(LayerBlob {
            digest: sha256(&content),
            diff_id: sha256(&archive),
            content,
        })
    }
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, entry: &Entry) -> io::Result<()> {
    if let Some(capabilities) = entry.capabilities {
        archive.append_pax_extensions([(CAPABILITY, &capabilities.attribute()[..])])?;
    }
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    match &entry.content {
        Content::Directory => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, format!("{path}/"), io::empty())
        }
        Content::File(content) => {
            header.set_entry_type(EntryType::Regular);
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, path, &content[..])
        }
        Content::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, path, target)
        }
    }
}

fn invalid_entry(path: &str, reason: &'static str) -> ImageError {
    ImageError::InvalidEntry {
        path: path.to_owned(),
        reason,
    }
}
