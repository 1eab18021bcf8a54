//! Reads the cloud-init data of a boot, and writes their image.

use std::path::PathBuf;

use domain::cloud_init::{self as data, CloudInitData, CloudInitError};
use kubevirt_api::vmi::Vmi;

use super::{BootResourceError, BootResources, FILE_TIMEOUT};
use crate::blocking;
use crate::sysfs_numa::Sysfs;
use crate::vm_boot::cloud_init_image;

/// The content and path of a cloud-init image, which is written once the domain is defined.
#[derive(Debug, Clone)]
pub struct CloudInitImage {
    /// The content, after the hooks.
    pub data: CloudInitData,
    /// The path that the domain's disk uses.
    pub path: PathBuf,
    /// Minimum size of the image in bytes.
    pub min_bytes: u64,
}

impl BootResources {
    /// The cloud-init data that the VMI asks for. Calls `tell` if a part of them is missing in a secret.
    pub async fn cloud_init(
        &self,
        vmi: &Vmi,
        tell: impl FnOnce(String),
    ) -> Result<Option<CloudInitData>, BootResourceError> {
        let (vmi, secrets) = (vmi.clone(), self.secrets.clone());
        let read = move || {
            let data = data::read(&vmi, &secrets)?;
            Ok::<_, CloudInitError>((data, data::missing_secret_data(&vmi, &secrets)))
        };
        let (data, missing) =
            blocking::file_call("reading cloud-init data", FILE_TIMEOUT, read).await??;
        missing.map(tell);
        Ok(data)
    }

    /// Writes the cloud-init image. `xml` is libvirt's description of the domain, if the domain is defined in this pod:
    /// it has the addresses by which the guest finds tagged devices.
    pub async fn write_cloud_init(
        &self,
        vmi: &Vmi,
        xml: Option<&str>,
        image: CloudInitImage,
    ) -> Result<(), BootResourceError> {
        let CloudInitImage {
            mut data,
            path,
            min_bytes,
        } = image;
        if let Some(xml) = xml {
            let spec = domain::domain_spec_from_xml::parse(xml)
                .map_err(|error| BootResourceError::DomainDescription(error.to_string()))?;
            if let Some(devices) = data::tagged_devices::metadata(vmi, &spec, &Sysfs::default()) {
                data.devices_data = Some(devices);
            }
        }
        data.complete(vmi);
        Ok(cloud_init_image::write(&data, &path, min_bytes).await?)
    }
}
