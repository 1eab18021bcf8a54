//! Tells the guest through cloud-init which virtual machine it is.

use hooks_sdk::{CloudInit, Description, Hook, HookPoint, Result, Vmi, log};

/// Where the guest finds it.
const FILE: &str = "/etc/kubevirt-hook";

/// The hook.
#[derive(Debug, Default)]
pub struct Identity;

impl Hook for Identity {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreCloudInitIso];

    fn describe(description: Description) -> Description {
        // It changes nothing of the domain.
        description.with_paths([])
    }

    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        if !cloud_init.is_cloud_config() {
            log::warn("the user data is no #cloud-config: nothing is added");
            return Ok(());
        }
        let identity = format!("{}/{}\n", vmi.namespace(), vmi.name());
        cloud_init.edit_cloud_config(|config| {
            config.add_file(FILE, "0644", &identity)?;
            config.add_run_command(["sh", "-c", "cat /etc/kubevirt-hook > /dev/console"])
        })?;
        Ok(())
    }
}

hooks_sdk::export!(Identity);
