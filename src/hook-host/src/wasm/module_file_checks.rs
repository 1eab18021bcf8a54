//! A module file that is being loaded: checks of size, header, digest and interfaces.

use std::fs::File;
use std::io;
use std::path::Path;

use super::file_digest;
use super::load_error::LoadError;
use super::sealed_module::SealedModule;
use super::section_headers::{self, IncompleteComponent};
use super::wit_versions::HookBinding;
use crate::blocking_work;
use crate::digest_pin::DigestPin;
use crate::module_description::{Description, DescriptionError};

/// A module file that is being loaded.
pub(super) struct ModuleFile<'a> {
    file: &'a File,
    pub(super) path: &'a Path,
    pub(super) size: u64,
    pin: Option<&'a DigestPin>,
    /// The sealed copy of the file, if there is one.
    pub(super) sealed: Option<&'a SealedModule>,
}

impl<'a> ModuleFile<'a> {
    /// Checks that the file is a regular file of at most `limit` bytes. Its content is not read.
    pub(super) async fn with_checked_size(
        file: &'a File,
        path: &'a Path,
        limit: u64,
    ) -> Result<Self, LoadError> {
        let mut source = Self {
            file,
            path,
            size: 0,
            pin: None,
            sealed: None,
        };
        let metadata = source.blocking(|file| file.metadata()).await?;
        source.size = metadata.len();
        if !metadata.is_file() {
            return Err(source.flawed(IncompleteComponent::NoFile));
        }
        if source.size > limit {
            return Err(LoadError::TooLarge {
                path: path.to_owned(),
                size: source.size,
                limit,
            });
        }
        Ok(source)
    }

    /// Checks type, size and section headers of the file.
    pub(super) async fn with_checked_header(
        file: &'a File,
        path: &'a Path,
        pin: Option<&'a DigestPin>,
        limit: u64,
    ) -> Result<Self, LoadError> {
        let source = Self::with_checked_size(file, path, limit).await?;
        let size = source.size;
        let check = move |file: File| section_headers::check_section_headers(&file, size);
        match source.blocking(check).await? {
            Some(flaw) => Err(source.flawed(flaw)),
            None => Ok(Self { pin, ..source }),
        }
    }

    fn flawed(&self, flaw: IncompleteComponent) -> LoadError {
        LoadError::Flawed {
            path: self.path.to_owned(),
            size: self.size,
            flaw,
        }
    }

    /// Checks that the module exports the optional interfaces of the hook points that it subscribes to.
    pub(super) fn check_interfaces(
        &self,
        hook: &HookBinding,
        description: &Description,
    ) -> Result<(), LoadError> {
        for subscription in &description.hook_points {
            if let Some(interface) = hook.missing_interface(subscription.point) {
                return Err(LoadError::Description {
                    path: self.path.to_owned(),
                    size: self.size,
                    source: DescriptionError::NoInterface {
                        point: subscription.point,
                        interface,
                    },
                });
            }
        }
        Ok(())
    }

    /// The sha256 of the file in hexadecimal.
    pub(super) async fn digest(&self) -> Result<String, LoadError> {
        match self.sealed {
            Some(sealed) => Ok(sealed.digest().to_owned()),
            None => self.blocking(|file| file_digest::digest(&file)).await,
        }
    }

    /// A sealed copy of the file.
    pub(super) async fn seal(&self, limit: u64) -> Result<SealedModule, LoadError> {
        match self.sealed {
            Some(sealed) => Ok(sealed.clone()),
            None => {
                self.blocking(move |file| SealedModule::copy_of(&file, limit))
                    .await
            }
        }
    }

    /// Runs work on the file on a thread for blocking work.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, LoadError> {
        let reading = async {
            let file = self.file.try_clone()?;
            blocking_work::run(move || work(file)).await?
        };
        reading.await.map_err(|source| LoadError::Read {
            path: self.path.to_owned(),
            source,
        })
    }

    /// Checks that `digest` is the pinned one, if the module is pinned.
    pub(super) fn check_pin(&self, digest: &str) -> Result<(), LoadError> {
        match self.pin {
            Some(pin) if pin.sha256 != digest => Err(LoadError::Digest {
                path: self.path.to_owned(),
                size: self.size,
                found: digest.to_owned(),
                expected: pin.sha256.clone(),
                place: pin.place.clone(),
            }),
            _ => Ok(()),
        }
    }
}
