//! A module file on its way into the engine.

use std::fs::File;
use std::io;
use std::path::Path;

use super::error::LoadError;
use super::file_digest;
use super::sealed_module::SealedModule;
use super::section_headers::{self, IncompleteComponent};
use super::wit_versions::HookBinding;
use crate::description::{Description, DescriptionError};
use crate::digest_pin::DigestPin;
use crate::off_worker;

/// A module file that is being loaded.
pub(super) struct ModuleFile<'a> {
    file: &'a File,
    pub(super) path: &'a Path,
    pub(super) size: u64,
    pin: Option<&'a DigestPin>,
    /// Its bytes, if somebody has copied them already.
    pub(super) sealed: Option<&'a SealedModule>,
}

impl<'a> ModuleFile<'a> {
    /// The file, if it is a regular one of a module's size. Its content is not looked at.
    pub(super) async fn sized(
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

    /// The file, if it has a module's size and head.
    pub(super) async fn checked(
        file: &'a File,
        path: &'a Path,
        pin: Option<&'a DigestPin>,
        limit: u64,
    ) -> Result<Self, LoadError> {
        let source = Self::sized(file, path, limit).await?;
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

    /// A hook point of an optional interface is called through this interface.
    pub(super) fn has_interfaces(
        &self,
        hook: &HookBinding,
        description: &Description,
    ) -> Result<(), LoadError> {
        for subscription in &description.hook_points {
            if let Some(interface) = hook.missing(subscription.point) {
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

    /// The sha256 of its bytes in hexadecimal.
    pub(super) async fn digest(&self) -> Result<String, LoadError> {
        match self.sealed {
            Some(sealed) => Ok(sealed.digest().to_owned()),
            None => self.blocking(|file| file_digest::digest(&file)).await,
        }
    }

    /// A copy of its bytes.
    pub(super) async fn seal(&self, limit: u64) -> Result<SealedModule, LoadError> {
        match self.sealed {
            Some(sealed) => Ok(sealed.clone()),
            None => {
                self.blocking(move |file| SealedModule::of(&file, limit))
                    .await
            }
        }
    }

    /// Reads the file on a thread for blocking work.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, LoadError> {
        let reading = async {
            let file = self.file.try_clone()?;
            off_worker::run(move || work(file)).await?
        };
        reading.await.map_err(|source| LoadError::Read {
            path: self.path.to_owned(),
            source,
        })
    }

    pub(super) fn is_pinned(&self, digest: &str) -> Result<(), LoadError> {
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
