//! Recipes that change cloud-init data.

use hooks_sdk::{CloudInit, ConfigFile, Context, Result, Vmi, json, pod};

pub(crate) fn packages(_vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
    cloud_init.edit_cloud_config(|config| {
        config.add_package("qemu-guest-agent")?;
        config.add_run_command(["systemctl", "enable", "--now", "qemu-guest-agent"])
    })?;
    Ok(())
}

pub(crate) fn user(vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
    let Some(key) = vmi.annotation("example.com/ops-key") else {
        return Ok(());
    };
    let members = json!({"groups": "wheel", "lock_passwd": true, "ssh_authorized_keys": [key]});
    cloud_init.edit_cloud_config(|config| config.add_user("ops", &members))?;
    Ok(())
}

pub(crate) fn network(_vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
    cloud_init.edit_network_data(|network| {
        network.set("version", &json!(2))?;
        network.set("ethernets.eth0.mtu", &json!(1400))
    })?;
    Ok(())
}

pub(crate) fn where_it_runs(vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
    // The node's name is in the VMI's status from the start on.
    let node = vmi.node_name().unwrap_or("unknown");
    let text = format!("node={node}\nvm={}/{}\n", vmi.namespace(), vmi.name());
    let file = ConfigFile::new("/etc/placement", text).with_permissions("0644");
    cloud_init.edit_cloud_config(|config| config.add_file(&file))?;
    Ok(())
}

pub(crate) fn address_of_the_pod(_vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
    // Multus writes it while the pod starts: the host waits for it.
    let lab = pod::networks("infra/lab")?.swap_remove(0);
    let address = lab.ips.first().context("infra/lab has no address")?;
    cloud_init.edit_network_data(|network| {
        network.set("ethernets.lab.match.macaddress", &json!(lab.mac))?;
        network.set("ethernets.lab.addresses", &json!([format!("{address}/24")]))
    })?;
    Ok(())
}
