//! What a boot needs of the node and of the pod's file systems.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use domain::access_credentials::{self as credentials, Credential};
use domain::cloud_init::{self as data, CloudInitData, CloudInitError, HookedDataError};
use domain::host::HostFacts;
use domain::local_disks::{DiskPreparation, LocalDiskError, expansions, local_disks};
use domain::options::{DiskInfo, Options};
use domain::prepare::PrepareError;
use domain::spec::DomainSpec;
use domain::vmi::Vmi;

use crate::access_credentials;
use crate::blocking::{self, Unanswered};
use crate::cloud_init::{self, SecretDirectory, SysTopology};
use crate::disks::{self, DirectIo, DiskError, DiskTools};
use crate::host::{IommuFd, IommuFdError};
use crate::image_volumes::{ImageVolumeError, ImageVolumes};
use crate::network::{NetworkError, PodNetwork};

use super::vm::QUICK;

/// Disks, cloud-init data or the guest's network could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError {
    /// There is no telling what must be in place.
    #[error(transparent)]
    LocalDisk(#[from] LocalDiskError),
    /// An image.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A disk's cache mode.
    #[error(transparent)]
    Modes(#[from] PrepareError),
    /// An image volume.
    #[error(transparent)]
    ImageVolume(#[from] ImageVolumeError),
    /// The guest's network.
    #[error("preparing the pod network failed: {0}")]
    Network(#[from] NetworkError),
    /// cloud-init data.
    #[error(transparent)]
    CloudInit(#[from] CloudInitError),
    /// What hooks made of the cloud-init data.
    #[error("cloud-init data after the hooks: {0}")]
    HookedCloudInit(#[from] HookedDataError),
    /// A secret of access credentials.
    #[error("access credentials: {0}")]
    AccessCredentials(String),
    /// The cloud-init image.
    #[error(transparent)]
    Iso(#[from] cloud_init::IsoError),
    /// libvirt's description of the new domain is not understood.
    #[error("reading libvirt's description of the new domain: {0}")]
    Description(String),
    /// A device plugin's iommufd.
    #[error(transparent)]
    IommuFd(#[from] IommuFdError),
    /// A file system hangs.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// A cloud-init image to be written once the domain is defined.
#[derive(Debug, Clone)]
pub struct CloudInitImage {
    /// What goes into it, hooks applied.
    pub data: CloudInitData,
    /// Where the domain's disk looks for it.
    pub path: PathBuf,
}

/// A domain whose images are in place.
pub struct Disks {
    /// The domain, cache and IO modes settled.
    pub spec: DomainSpec,
    /// Where the cloud-init image goes, if a disk shows one.
    pub cloud_init: Option<PathBuf>,
}

/// What is known of the node, and the tools.
pub struct Preparation {
    /// The node, as probed at start-up.
    pub facts: HostFacts,
    /// How images are made.
    pub tools: DiskTools,
    /// Secrets that cloud-init data are in.
    pub secrets: SecretDirectory,
    /// `--container-disk-dir`.
    pub container_disks: PathBuf,
    /// The guest's side of the pod's network.
    pub network: PodNetwork,
    /// Where images are mounted as volumes (`--image-volume`); else virt-handler puts them in place.
    pub image_volumes: Option<ImageVolumes>,
    /// What was found out about container disks; they do not change while the pod lives.
    pub known_disks: Mutex<BTreeMap<String, DiskInfo>>,
    /// The open `/dev/iommu` that a device plugin may hand over.
    pub iommufd: IommuFd,
    /// libvirt's simulator starts no QEMU: images are not made, and may not be makeable here.
    pub test_driver: bool,
}

impl Preparation {
    /// The options, with what the launcher finds out about container disks by itself.
    pub async fn options(&self, vmi: &Vmi, options: &Options) -> Result<Options, PreparationError> {
        let mut options = options.clone();
        if self.test_driver {
            return Ok(options);
        }
        self.link_images(vmi).await?;
        let known = || {
            self.known_disks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut disks = known().clone();
        disks.append(&mut options.disks_info);
        let disks = disks::container_disks(vmi, &disks, &self.container_disks, &self.tools).await?;
        known().clone_from(&disks);
        options.disks_info = disks;
        Ok(options)
    }

    /// The node, and what was handed over since it was probed.
    pub async fn facts(&self) -> Result<HostFacts, PreparationError> {
        Ok(HostFacts {
            iommufd: !self.test_driver && self.iommufd.receive().await?.is_some(),
            ..self.facts.clone()
        })
    }

    async fn link_images(&self, vmi: &Vmi) -> Result<(), PreparationError> {
        let Some(volumes) = self.image_volumes.clone() else {
            return Ok(());
        };
        let vmi = vmi.clone();
        let link = move || volumes.link(&vmi);
        Ok(blocking::call("looking for images in image volumes", QUICK, link).await??)
    }

    /// cloud-init data as the VMI asks for it.
    pub async fn cloud_init(&self, vmi: &Vmi) -> Result<Option<CloudInitData>, PreparationError> {
        let (vmi, secrets) = (vmi.clone(), self.secrets.clone());
        let read = move || data::read(&vmi, &secrets);
        Ok(blocking::call("reading cloud-init data", QUICK, read).await??)
    }

    /// The credentials that go through the guest's agent; their secrets are mounted.
    pub async fn access_credentials(&self, vmi: &Vmi) -> Result<Vec<Credential>, PreparationError> {
        let (credentials, secrets) = (credentials::through_agent(vmi), self.secrets.clone());
        let check =
            move || access_credentials::require(&credentials, &secrets).map(|()| credentials);
        let checked = blocking::call("looking for access credentials", QUICK, check).await?;
        checked.map_err(PreparationError::AccessCredentials)
    }

    /// Attaches interfaces to the devices that virt-handler made for them, and serves their DHCP.
    pub async fn network(
        &self,
        vmi: &Vmi,
        options: &Options,
        mut spec: DomainSpec,
    ) -> Result<DomainSpec, PreparationError> {
        if !self.test_driver {
            self.network.connect(vmi, options, &mut spec).await?;
        }
        Ok(spec)
    }

    /// Puts images in place, and settles the disks' cache and IO modes by where they lie.
    pub async fn disks(&self, vmi: &Vmi, mut spec: DomainSpec) -> Result<Disks, PreparationError> {
        let mut preparations = local_disks(vmi, &spec)?;
        if self.test_driver {
            preparations.retain(|one| matches!(one, DiskPreparation::CloudInitIso { .. }));
        }
        disks::prepare(&preparations, &self.tools).await?;
        let cloud_init = preparations.iter().find_map(|one| match one {
            DiskPreparation::CloudInitIso { path, .. } => Some(PathBuf::from(path)),
            _ => None,
        });
        if !self.test_driver {
            let settle = move || domain::prepare::driver_modes(&mut spec, &DirectIo).map(|()| spec);
            spec = blocking::call("probing the disks' file systems", QUICK, settle).await??;
            disks::expand(&expansions(vmi, &spec), &self.tools).await;
        }
        Ok(Disks { spec, cloud_init })
    }

    /// Writes the cloud-init image. `xml` is libvirt's description of the defined domain: it has the
    /// addresses by which the guest finds tagged devices.
    pub async fn write_cloud_init(
        &self,
        vmi: &Vmi,
        xml: &str,
        image: CloudInitImage,
    ) -> Result<(), PreparationError> {
        let CloudInitImage { mut data, path } = image;
        let spec = domain::parse::parse(xml)
            .map_err(|error| PreparationError::Description(error.to_string()))?;
        if let Some(devices) = data::devices::metadata(vmi, &spec, &SysTopology) {
            data.devices_data = Some(devices);
        }
        data.complete(vmi);
        Ok(cloud_init::write_iso(&data, &path).await?)
    }
}
