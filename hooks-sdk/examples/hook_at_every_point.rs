//! A hook at every hook point, for the SDK's own tests: the test's instruction is in the
//! annotation `do` of the VMI.

use std::time::Duration;

use hooks_sdk::{
    CloudInit, Context, Description, Device, Domain, Hook, HookPoint, Migration,
    MigrationParameter, Result, Vmi, failed, host, log, pod, veto,
};

/// The hook.
#[derive(Debug, Default)]
pub struct HookAtEveryPoint;

impl Hook for HookAtEveryPoint {
    const HOOK_POINTS: &'static [HookPoint] = &[
        HookPoint::PreStart,
        HookPoint::PreCloudInitIso,
        HookPoint::OnDefineDomain,
        HookPoint::OnAttachDevice,
        HookPoint::PreMigrationSource,
        HookPoint::Shutdown,
    ];

    fn describe(description: Description) -> Description {
        description
            .with_name("every \"point\"")
            .with_priority_at(HookPoint::Shutdown, -5)
            .with_paths([
                "/domain/title",
                "/domain/qemu:commandline/**",
                "/domain/devices/disk/driver/**",
            ])
            .with_config(["colour"])
            .with_migration_parameters([
                MigrationParameter::Bandwidth,
                MigrationParameter::AllowAutoConverge,
            ])
            .with_pod_facts(["labels/tier"])
    }

    fn pre_start(&self, vmi: &Vmi) -> Result {
        match vmi.annotation("do") {
            Some("veto") => return Err(veto("licence expired")),
            Some("fail") => return Err(failed("no licence server")),
            Some("panic") => panic!("a wheel came off"),
            Some("pod") => log::info(format!("the pod's tier is {}", pod::label("tier")?)),
            Some("ask for everything") => {
                log::info(format!(
                    "annotation: {:?}",
                    pod::annotation_if_set("colour")
                ));
                log::info(format!("label: {:?}", pod::label_if_set("zone")));
                log::info(format!("networks: {:?}", pod::networks_if_set("lab")));
                log::info(format!(
                    "default network: {:?}",
                    pod::default_network_if_set()
                ));
                log::info(format!("network info: {:?}", pod::network_info_if_set()));
            }
            Some("parse") => drop(vmi.name().parse::<u8>().context("reading the name")?),
            _ => {}
        }
        log::info(format!("{} may start: {:?}", vmi.name(), host::reason()));
        Ok(())
    }

    fn pre_cloud_init_iso(&self, _vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        cloud_init.set_network_data(format!("# {}\n", cloud_init.data_source()));
        Ok(())
    }

    fn on_define_domain(&self, _vmi: &Vmi, domain: &mut Domain) -> Result {
        let colour = host::config("colour").context("no colour is configured")?;
        domain.set("title", colour)?;
        domain.add_qemu_args(["-name", "x"]);
        Ok(())
    }

    fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
        match vmi.annotation("do") {
            Some("veto") => return Err(veto("no more devices")),
            Some("identity") => drop(device.set("target/@dev", "sdz")?),
            _ => {}
        }
        log::info(format!("{:?}: {:?}", host::reason(), device.vmi_name()));
        device.ensure_child("driver").set_attr("cache", "none");
        Ok(())
    }

    fn pre_migration_source(&self, vmi: &Vmi, migration: &mut Migration) -> Result {
        match vmi.annotation("do") {
            Some("veto") => return Err(veto("it stays here")),
            Some("more") => migration.set_max_downtime(Duration::from_millis(50))?,
            _ => {}
        }
        migration.set_bandwidth(64 << 20)?;
        migration.allow_auto_converge(true);
        Ok(())
    }

    fn shutdown(&self) -> Result {
        Err(failed("shutting down is never easy"))
    }
}

hooks_sdk::export!(HookAtEveryPoint);
