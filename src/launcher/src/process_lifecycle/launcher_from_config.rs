//! Starts the daemons and builds the launcher, as its configuration says.

use std::sync::{Arc, Once};

use domain::convert::{FIRMWARE_LOG, is_firmware_logged};
use domain::kubevirt_version::Behaviour;
use domain::migration::IncomingEdits;
use hook_host::policy::permission::unreviewed_libvirt;
use libvirt::HypervisorConnection;

use super::{Composition, LauncherWithDaemons};
use crate::config::Config;
use crate::guest_agent::PollIntervals;
use crate::hooks_trait::Hooks;
use crate::libvirt_client::Connect;
use crate::libvirt_daemons::{self, Daemons, DaemonsConfig};
use crate::manager::Identity;
use crate::notify::Warning;
use crate::vm_boot::boot_resources::BootResources;
use crate::vm_boot::host_facts;
use crate::vm_boot::image_volumes::ImageVolumes;
use crate::{init_dirs, libvirt_migration_hook_server};

/// The reason of the event about a version of KubeVirt that may not be the cluster's. A release that the image or the operator
/// names has no event, so that a VM's events are KubeVirt's.
const KUBEVIRT_VERSION_UNCERTAIN: &str = "KubeVirtVersionUncertain";

impl LauncherWithDaemons {
    /// Starts tasks in the order that KubeVirt expects. When it returns, the launcher is ready.
    pub(super) async fn build(
        config: &Config,
        identity: Identity,
        hooks: Arc<dyn Hooks>,
        daemons: Option<Daemons>,
    ) -> anyhow::Result<LauncherWithDaemons> {
        init_dirs::initialize_disk_data(&config.paths)?;
        let libvirt_uri = uri(config, daemons.as_ref());
        let composition = Composition {
            paths: config.paths.clone(),
            identity,
            pod_name: std::env::var("POD_NAME").unwrap_or_default(),
            connect: connect(libvirt_uri.clone(), config.flags.hook_sidecars > 0),
            connect_target: Arc::new(libvirt::connect),
            libvirt_uri,
            hooks,
            boot_resources: boot_resources(config),
            poll_intervals: poll_intervals(config),
            vm_stats_collector: config.flags.vm_stats_collector,
            migration_hooks: config.serves_migration_hook(),
            lost_logs: daemons.as_ref().and_then(Daemons::lost_logs),
            migration_log: daemons
                .as_ref()
                .map(Daemons::migration_log)
                .unwrap_or_default(),
        };
        let running = composition.start().await?;
        if let Some(message) = config.kubevirt_warning() {
            running.manager.vm().notifier.warning(&Warning {
                reason: KUBEVIRT_VERSION_UNCERTAIN,
                message,
            });
        }
        Ok(LauncherWithDaemons { running, daemons })
    }
}

/// A function that opens connections to libvirt. If the launcher has hooks, the first connection logs a warning about a
/// libvirt version for which the dangerous set was not reviewed.
fn connect(uri: String, has_hooks: bool) -> Connect {
    let report = Once::new();
    Arc::new(move || {
        let hypervisor = libvirt::connect(&uri)?;
        if has_hooks {
            report.call_once(|| report_unreviewed(&*hypervisor));
        }
        Ok(hypervisor)
    })
}

fn report_unreviewed(hypervisor: &dyn HypervisorConnection) {
    match hypervisor.version() {
        Ok(version) => {
            if let Some(warning) = unreviewed_libvirt(version.0) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::warn!(%error, "libvirt's version is not known"),
    }
}

/// Starts libvirt's daemons; `None` if the launcher uses daemons that run already (`--libvirt-uri`).
pub(super) async fn start_daemons(
    config: &Config,
    identity: &Identity,
) -> anyhow::Result<Option<Daemons>> {
    if config.libvirt_uri.is_some() {
        return Ok(None);
    }
    // Before the daemons, which look for the hook when they start.
    libvirt_migration_hook_server::install_hook_link(config.serves_migration_hook())?;
    let environment = |name: &str| std::env::var(name).ok();
    let filters = &config.flags.libvirt_log_filters;
    let daemons = DaemonsConfig {
        firmware_log: is_firmware_logged(config.verbosity.into())
            .then(|| config.paths.private.join(FIRMWARE_LOG)),
        ..DaemonsConfig::new(&config.paths, &identity.domain, filters, environment)
    };
    Ok(Some(libvirt_daemons::start(&daemons).await?))
}

fn uri(config: &Config, daemons: Option<&Daemons>) -> String {
    match (&config.libvirt_uri, daemons) {
        (Some(uri), _) => uri.clone(),
        (None, Some(daemons)) => daemons.uri().to_owned(),
        (None, None) => String::new(),
    }
}

fn poll_intervals(config: &Config) -> PollIntervals {
    let flags = &config.flags;
    PollIntervals {
        system: flags.qemu_agent_sys_interval,
        filesystems: flags.qemu_agent_file_interval,
        users: flags.qemu_agent_user_interval,
        version: flags.qemu_agent_version_interval,
        freeze_status: flags.qemu_fsfreeze_status_interval,
    }
}

fn boot_resources(config: &Config) -> BootResources {
    let edits = IncomingEdits {
        renames_ordinal_taps: config.flags.upgrade_ordinal_ifaces,
        replaces_vgpu: config.flags.vgpu_dedicated_hook,
    };
    let behaviour = Behaviour::of(config.kubevirt.version);
    BootResources {
        image_volumes: (config.flags.image_volume)
            .then(|| ImageVolumes::kubevirt(&config.paths.container_disks, &behaviour)),
        test_driver: config.is_test_driver(),
        incoming_edits: config.serves_migration_hook().then_some(edits),
        ..BootResources::new(
            &config.paths,
            host_facts::probe(config),
            config.flags.disk_memory_limit,
        )
    }
}
