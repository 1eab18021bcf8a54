//! Writes the name of the virtual machine to a file in the guest through cloud-init, and adds packages, a user and the
//! MTU of its networks from annotations.

use hooks_sdk::{
    CloudConfig, CloudInit, CloudInitError, ConfigFile, Context, Description, Hook, HookPoint,
    Result, Vmi, json, log,
};

/// The file with the name.
const FILE: &str = "/etc/kubevirt-hook";
/// Packages, separated by white space.
const PACKAGES: &str = "cloud-init.example.com/packages";
/// The name of a user who may become root.
const USER: &str = "cloud-init.example.com/user";
/// That user's SSH key.
const SSH_KEY: &str = "cloud-init.example.com/ssh-key";
/// The MTU of every interface that the network data has.
const MTU: &str = "cloud-init.example.com/mtu";

/// The hook.
#[derive(Debug, Default)]
pub struct Identity;

impl Hook for Identity {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreCloudInitIso];

    fn describe(description: Description) -> Description {
        // It changes nothing in the domain.
        description.with_no_paths()
    }

    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        if let Some(mtu) = vmi.annotation(MTU) {
            set_mtu(cloud_init, mtu.parse().context(MTU)?)?;
        }
        if !cloud_init.is_cloud_config() {
            log::warn("the user data is no #cloud-config: nothing is added");
            return Ok(());
        }
        cloud_init.edit_cloud_config(|config| add(vmi, config))?;
        Ok(())
    }
}

fn add(vmi: &Vmi, config: &mut CloudConfig) -> Result<(), CloudInitError> {
    let identity = format!("{}/{}\n", vmi.namespace(), vmi.name());
    config.add_file(&ConfigFile::new(FILE, identity).with_permissions("0644"))?;
    config.add_run_command(["sh", "-c", "cat /etc/kubevirt-hook > /dev/console"])?;
    for package in vmi
        .annotation(PACKAGES)
        .into_iter()
        .flat_map(str::split_whitespace)
    {
        config.add_package(package)?;
    }
    if let Some(user) = vmi.annotation(USER) {
        let keys: Vec<&str> = vmi.annotation(SSH_KEY).into_iter().collect();
        let sudo = "ALL=(ALL) NOPASSWD:ALL";
        config.add_user(user, &json!({"sudo": sudo, "ssh_authorized_keys": keys}))?;
    }
    Ok(())
}

/// Network data of version 2 has its interfaces below `ethernets`, at the top or below `network`.
fn set_mtu(cloud_init: &mut CloudInit, mtu: u16) -> Result {
    cloud_init.edit_network_data(|network| {
        for ethernets in ["ethernets", "network.ethernets"] {
            for interface in network.keys(ethernets)? {
                network.set(&format!("{ethernets}['{interface}'].mtu"), &json!(mtu))?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

hooks_sdk::export!(Identity);
