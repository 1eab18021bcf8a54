//! The resources of a boot: facts about the node, disks, cloud-init data, network, credentials.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::access_credentials::{Credential, agent_credentials};
use domain::cloud_init::{self as data, CloudInitData, CloudInitError, HookedDataError};
use domain::convert::Purpose;
use domain::disk_expansion::image_expansions;
use domain::driver_modes::DriverModeError;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::{Disk, DomainSpec, Interface};
use domain::migration::IncomingEdits;
use domain::required_files::{RequiredFile, RequiredFileError, changed_blocks, required_files};
use domain::secret_source::SecretError;
use kubevirt_api::virtual_machine_options::{DiskInfo, Options};
use kubevirt_api::vmi::Vmi;

use crate::agent::credentials;
use crate::blocking::{self, NoAnswer};
use crate::boot::cloud_init;
use crate::boot::disk_images::{self, DirectIo, DiskError, DiskTools};
use crate::boot::host_facts::{IommuFd, IommuFdError};
use crate::boot::image_volumes::{ImageVolumeError, ImageVolumes};
use crate::boot::network::{NetworkError, PodNetworkSetup};
use crate::mounted_secrets::MountedSecrets;
use crate::paths::Paths;
use crate::sysfs_numa_and_cpus::Sysfs;

/// For reading small files on the pod's volumes.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Disks, cloud-init data, credentials or the guest's network could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum BootResourceError {
    /// The VMI does not determine which disks are needed.
    #[error(transparent)]
    RequiredFile(#[from] RequiredFileError),
    /// An image.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A disk's cache mode.
    #[error(transparent)]
    DriverMode(#[from] DriverModeError),
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
    AccessCredentials(SecretError),
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
    NoAnswer(#[from] NoAnswer),
}

/// A cloud-init image to be written once the domain is defined.
#[derive(Debug, Clone)]
pub struct CloudInitImage {
    /// What goes into it, hooks applied.
    pub data: CloudInitData,
    /// Where the domain's disk looks for it.
    pub path: PathBuf,
    /// Bytes that it has at least.
    pub min_bytes: u64,
}

/// A domain whose images have been made.
pub struct PreparedDisks {
    /// The domain, with the disks' cache and IO modes.
    pub spec: DomainSpec,
    /// The path of the cloud-init image and the bytes that it has at least, if a disk uses one.
    pub cloud_init: Option<(PathBuf, u64)>,
}

/// Prepares what a boot needs.
pub struct BootResources {
    /// The node, as probed at start-up.
    pub facts: HostFacts,
    /// How images are made.
    pub tools: DiskTools,
    /// Secrets that cloud-init data are in.
    pub secrets: MountedSecrets,
    /// `--container-disk-dir`.
    pub container_disks: PathBuf,
    /// `--hotplug-disk-dir`.
    pub hotplug_disks: PathBuf,
    /// The downward API's file about the pod's interfaces.
    pub network_info: PathBuf,
    /// Where the sockets of a migration are.
    pub migration_sockets: PathBuf,
    /// Where libvirt's hook of a migration's target finds the launcher.
    pub hook_socket: PathBuf,
    /// What a migration's target edits beside processors and names of files; `None` if its source edits these
    /// (without `--libvirt-hook-server-and-client`).
    pub incoming_edits: Option<IncomingEdits>,
    /// The guest's side of the pod's network.
    pub network: PodNetworkSetup,
    /// Where images are mounted as volumes (`--image-volume`); else virt-handler puts them in place.
    pub image_volumes: Option<ImageVolumes>,
    /// Container disks that were inspected; they do not change while the pod lives.
    pub known_disks: Mutex<BTreeMap<String, DiskInfo>>,
    /// The open `/dev/iommu` that a device plugin may hand over.
    pub iommufd: IommuFd,
    /// Whether libvirt's test driver is used. It starts no QEMU, so that images are not made.
    pub test_driver: bool,
}

impl BootResources {
    /// KubeVirt's directories and programs, without image volumes.
    pub fn new(paths: &Paths, facts: HostFacts, disk_memory_limit: u64) -> BootResources {
        BootResources {
            facts,
            tools: DiskTools::new(disk_memory_limit),
            secrets: MountedSecrets(paths.private.join("secret")),
            container_disks: paths.container_disks.clone(),
            hotplug_disks: paths.hotplug_disks.clone(),
            network_info: paths.network_info.clone(),
            migration_sockets: paths.migration_sockets(),
            hook_socket: paths.migration_hook_socket(),
            incoming_edits: None,
            network: PodNetworkSetup::kubevirt(&paths.private),
            image_volumes: None,
            known_disks: Mutex::default(),
            iommufd: IommuFd::at_socket(paths.iommufd_socket()),
            test_driver: false,
        }
    }

    /// The options, with the launcher's own inspection of container disks.
    pub async fn options(
        &self,
        vmi: &Vmi,
        options: &Options,
    ) -> Result<Options, BootResourceError> {
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
        let disks =
            disk_images::container_disks(vmi, &disks, &self.container_disks, &self.tools).await?;
        known().clone_from(&disks);
        options.disks_info = disks;
        Ok(options)
    }

    /// Facts about the node, with an iommufd that has arrived since it was probed.
    pub async fn facts(&self) -> Result<HostFacts, BootResourceError> {
        Ok(HostFacts {
            iommufd: !self.test_driver && self.iommufd.receive().await?.is_some(),
            ..self.facts.clone()
        })
    }

    async fn link_images(&self, vmi: &Vmi) -> Result<(), BootResourceError> {
        let Some(volumes) = self.image_volumes.clone() else {
            return Ok(());
        };
        let vmi = vmi.clone();
        let link = move || volumes.link(&vmi);
        Ok(
            blocking::file_call("looking for images in image volumes", FILE_TIMEOUT, link)
                .await??,
        )
    }

    /// cloud-init data as the VMI asks for it.
    pub async fn cloud_init(&self, vmi: &Vmi) -> Result<Option<CloudInitData>, BootResourceError> {
        let (vmi, secrets) = (vmi.clone(), self.secrets.clone());
        let read = move || data::read(&vmi, &secrets);
        Ok(blocking::file_call("reading cloud-init data", FILE_TIMEOUT, read).await??)
    }

    /// The credentials to set through the guest agent, after a check that their secrets are mounted.
    pub async fn access_credentials(
        &self,
        vmi: &Vmi,
    ) -> Result<Vec<Credential>, BootResourceError> {
        let (credentials, secrets) = (agent_credentials(vmi), self.secrets.clone());
        let check = move || credentials::require(&credentials, &secrets).map(|()| credentials);
        let checked =
            blocking::file_call("looking for access credentials", FILE_TIMEOUT, check).await?;
        checked.map_err(BootResourceError::AccessCredentials)
    }

    /// Attaches interfaces to the devices that virt-handler made for them, and serves their DHCP.
    pub async fn network(
        &self,
        vmi: &Vmi,
        options: &Options,
        mut spec: DomainSpec,
    ) -> Result<DomainSpec, BootResourceError> {
        if !self.test_driver {
            self.network.connect(vmi, options, &mut spec).await?;
        }
        Ok(spec)
    }

    /// Attaches a hotplugged interface to the device that virt-handler made for it, and serves its DHCP.
    pub async fn hotplug_network(
        &self,
        vmi: &Vmi,
        options: &Options,
        interface: Interface,
    ) -> Result<Interface, BootResourceError> {
        let network = &self.network;
        Ok(network.connect_hotplugged(vmi, options, interface).await?)
    }

    /// Makes the image of a hotplugged disk's changed blocks, if they are tracked.
    pub async fn changed_blocks(&self, vmi: &Vmi, disk: &Disk) -> Result<(), BootResourceError> {
        let files: Vec<_> = changed_blocks(vmi, disk)?.into_iter().collect();
        Ok(disk_images::make_files(&files, &self.tools).await?)
    }

    /// Makes the images, and chooses the disks' cache and IO modes by their file systems.
    pub async fn disks(
        &self,
        purpose: Purpose,
        vmi: &Vmi,
        mut spec: DomainSpec,
        facts: &HostFacts,
    ) -> Result<PreparedDisks, BootResourceError> {
        let mut files = required_files(purpose, vmi, &spec, facts)?;
        if self.test_driver {
            files.retain(|one| matches!(one, RequiredFile::CloudInitIso { .. }));
        }
        disk_images::make_files(&files, &self.tools).await?;
        let cloud_init = files.iter().find_map(|one| match one {
            RequiredFile::CloudInitIso {
                path, min_bytes, ..
            } => Some((PathBuf::from(path), *min_bytes)),
            _ => None,
        });
        if !self.test_driver {
            let probe =
                move || domain::driver_modes::set_driver_modes(&mut spec, &DirectIo).map(|()| spec);
            spec = blocking::file_call("probing the disks' file systems", FILE_TIMEOUT, probe)
                .await??;
            disk_images::expand(&image_expansions(vmi, &spec), &self.tools).await;
        }
        Ok(PreparedDisks { spec, cloud_init })
    }

    /// Writes the cloud-init image. `xml` is libvirt's description of the domain if it is defined here: it has the
    /// addresses by which the guest finds tagged devices.
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
            let spec = domain::parse_domain_xml::parse(xml)
                .map_err(|error| BootResourceError::Description(error.to_string()))?;
            if let Some(devices) = data::tagged_devices::metadata(vmi, &spec, &Sysfs::default()) {
                data.devices_data = Some(devices);
            }
        }
        data.complete(vmi);
        Ok(cloud_init::write_iso(&data, &path, min_bytes).await?)
    }
}
