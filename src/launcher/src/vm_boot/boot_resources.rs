//! Prepares the resources of a boot: disks, cloud-init data, network, credentials, and facts about the node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::cloud_init as data;
use domain::cloud_init::{CloudInitData, CloudInitError, HookOutputError};
use domain::convert::Purpose;
use domain::disk_expansion::image_expansions;
use domain::driver_modes::DriverModeError;
use domain::guest_agent_access_credentials::{Credential, agent_credentials};
use domain::host_facts::HostFacts;
use domain::libvirt_spec::{Disk, DomainSpec, Interface};
use domain::migration::IncomingEdits;
use domain::required_files::{RequiredFile, RequiredFileError, changed_blocks, required_files};
use domain::secret_source::SecretError;
use kubevirt_api::virtual_machine_options::{DiskInfo, Options};
use kubevirt_api::vmi::Vmi;

use crate::blocking;
use crate::blocking::NoAnswer;
use crate::guest_agent::access_credentials;
use crate::mounted_secrets::MountedSecrets;
use crate::paths::Paths;
use crate::sysfs_numa::Sysfs;
use crate::vm_boot::cloud_init_image::CloudInitImageError;
use crate::vm_boot::disk_images::{DiskImageError, DiskTools, DriverModeProbe};
use crate::vm_boot::host_facts::{IommuFd, IommuFdError};
use crate::vm_boot::image_volumes::{ImageVolumeError, ImageVolumes};
use crate::vm_boot::network::{NetworkError, PodNetworkSetup};
use crate::vm_boot::{cloud_init_image, disk_images};

/// How long reading small files on the pod's volumes may take.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// A domain whose disk images have been made.
pub struct PreparedDisks {
    /// The domain, with the cache and I/O modes of its disks.
    pub spec: DomainSpec,
    /// The path of the cloud-init image and its minimum size in bytes, if a disk uses one.
    pub cloud_init: Option<(PathBuf, u64)>,
}

/// Prepares the resources of a boot.
pub struct BootResources {
    /// The node, as probed at start-up.
    pub facts: HostFacts,
    /// How qemu-img is run.
    pub tools: DiskTools,
    /// The secrets that contain cloud-init data and access credentials.
    pub secrets: MountedSecrets,
    /// `--container-disk-dir`.
    pub container_disks: PathBuf,
    /// `--hotplug-disk-dir`.
    pub hotplug_disks: PathBuf,
    /// The downward API's file that describes the pod's interfaces.
    pub network_info: PathBuf,
    /// The directory of a migration's sockets.
    pub migration_sockets: PathBuf,
    /// The socket at which libvirt's hook on a migration's target reaches the launcher.
    pub hook_socket: PathBuf,
    /// What a migration's target edits besides CPUs and file names; `None` if the source edits these (without
    /// `--libvirt-hook-server-and-client`).
    pub incoming_edits: Option<IncomingEdits>,
    /// The guest's side of the pod's network.
    pub network: PodNetworkSetup,
    /// Where images are mounted as volumes (`--image-volume`); otherwise virt-handler mounts the images.
    pub image_volumes: Option<ImageVolumes>,
    /// The container disks that were inspected already; they do not change while the pod exists.
    pub inspected_disks: Mutex<BTreeMap<String, DiskInfo>>,
    /// The open `/dev/iommu` that a device plugin may hand over.
    pub iommufd: IommuFd,
    /// Whether libvirt's test driver is used. It starts no QEMU, so no images are made for it.
    pub test_driver: bool,
}

impl BootResources {
    /// Uses KubeVirt's directories and programs, and no image volumes.
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
            inspected_disks: Mutex::default(),
            iommufd: IommuFd::at_socket(paths.iommufd_socket()),
            test_driver: false,
        }
    }

    /// Completes the options by the launcher's own inspection of container disks.
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
        let inspected = || {
            self.inspected_disks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut disks = inspected().clone();
        disks.append(&mut options.disks_info);
        let disks =
            disk_images::inspect_container_disks(vmi, &disks, &self.container_disks, &self.tools)
                .await?;
        inspected().clone_from(&disks);
        options.disks_info = disks;
        Ok(options)
    }

    /// Facts about the node, with whether an iommufd has arrived since the probe.
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

    /// The credentials to set through the guest agent. Their secrets are checked to be mounted.
    pub async fn access_credentials(
        &self,
        vmi: &Vmi,
    ) -> Result<Vec<Credential>, BootResourceError> {
        let (credentials, secrets) = (agent_credentials(vmi), self.secrets.clone());
        let check =
            move || access_credentials::require(&credentials, &secrets).map(|()| credentials);
        let checked =
            blocking::file_call("looking for access credentials", FILE_TIMEOUT, check).await?;
        checked.map_err(BootResourceError::AccessCredentials)
    }

    /// Attaches interfaces to the tap devices that virt-handler made for them, and serves their DHCP.
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

    /// Attaches a hotplugged interface to the tap device that virt-handler made for it, and serves its DHCP.
    pub async fn hotplug_network(
        &self,
        vmi: &Vmi,
        options: &Options,
        interface: Interface,
    ) -> Result<Interface, BootResourceError> {
        let network = &self.network;
        Ok(network.connect_hotplugged(vmi, options, interface).await?)
    }

    /// Makes the image that tracks the changed blocks of a hotplugged disk, if they are tracked.
    pub async fn changed_blocks(&self, vmi: &Vmi, disk: &Disk) -> Result<(), BootResourceError> {
        let files: Vec<_> = changed_blocks(vmi, disk)?.into_iter().collect();
        Ok(disk_images::prepare_required_files(&files, &self.tools).await?)
    }

    /// Makes the disk images, and chooses the cache and I/O modes of the disks by their file systems.
    pub async fn disks(
        &self,
        purpose: Purpose,
        vmi: &Vmi,
        mut spec: DomainSpec,
        facts: &HostFacts,
    ) -> Result<PreparedDisks, BootResourceError> {
        let mut files = required_files(purpose, vmi, &spec, facts)?;
        if self.test_driver {
            files.retain(|file| matches!(file, RequiredFile::CloudInitIso { .. }));
        }
        disk_images::prepare_required_files(&files, &self.tools).await?;
        let cloud_init = files.iter().find_map(|file| match file {
            RequiredFile::CloudInitIso {
                path, min_bytes, ..
            } => Some((PathBuf::from(path), *min_bytes)),
            _ => None,
        });
        if !self.test_driver {
            let probe = move || {
                domain::driver_modes::set_driver_modes(&mut spec, &DriverModeProbe).map(|()| spec)
            };
            spec = blocking::file_call("probing the disks' file systems", FILE_TIMEOUT, probe)
                .await??;
            disk_images::expand(&image_expansions(vmi, facts, &spec), &self.tools).await;
        }
        Ok(PreparedDisks { spec, cloud_init })
    }
}

/// A resource of a boot could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum BootResourceError {
    /// The files that the VMI's disks need could not be determined.
    #[error(transparent)]
    RequiredFile(#[from] RequiredFileError),
    /// A disk image could not be made.
    #[error(transparent)]
    DiskImage(#[from] DiskImageError),
    /// A disk's cache mode could not be chosen.
    #[error(transparent)]
    DriverMode(#[from] DriverModeError),
    /// An image volume does not contain the expected image.
    #[error(transparent)]
    ImageVolume(#[from] ImageVolumeError),
    /// The guest's network could not be prepared.
    #[error("preparing the pod network failed: {0}")]
    Network(#[from] NetworkError),
    /// The cloud-init data are invalid or cannot be read.
    #[error(transparent)]
    CloudInit(#[from] CloudInitError),
    /// The cloud-init data are invalid after the hooks.
    #[error("cloud-init data after the hooks: {0}")]
    HookedCloudInit(#[from] HookOutputError),
    /// A secret with access credentials is not mounted.
    #[error("access credentials: {0}")]
    AccessCredentials(SecretError),
    /// The cloud-init image could not be written.
    #[error(transparent)]
    CloudInitImage(#[from] CloudInitImageError),
    /// libvirt's description of the new domain could not be parsed.
    #[error("reading libvirt's description of the new domain: {0}")]
    DomainDescription(String),
    /// A device plugin has not handed over its iommufd.
    #[error(transparent)]
    IommuFd(#[from] IommuFdError),
    /// A file system call timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

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
