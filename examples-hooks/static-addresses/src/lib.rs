//! Sets the addresses that the cluster gave the pod's secondary networks as static addresses in the guest: for networks
//! without DHCP, whose IPAM plugin only tells the pod.

use hooks_sdk::{
    CloudInit, CloudInitError, Context, Description, Hook, HookPoint, Result, Value, Vmi, Yaml,
    failed, host, json, log, pod,
};

/// The prefix lengths of addresses, which the network status does not have: `ipv4`, and `ipv6`.
const IPV4_PREFIX: &str = "ipv4-prefix";
const IPV6_PREFIX: &str = "ipv6-prefix";

/// The hook.
#[derive(Debug, Default)]
pub struct StaticAddresses;

impl Hook for StaticAddresses {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreCloudInitIso];

    fn describe(description: Description) -> Description {
        description
            .with_pod_facts(["network-status/*"])
            .with_config([IPV4_PREFIX, IPV6_PREFIX])
    }

    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        let mut interfaces = Vec::new();
        for network in vmi.networks() {
            let (Some(definition), Some(name)) = (network.multus(), network.text("name")) else {
                continue;
            };
            let entry = pod::networks(definition)?.swap_remove(0);
            if entry.ips.is_empty() {
                log::info(format!(
                    "{definition} has no addresses: {name} is left alone"
                ));
                continue;
            }
            interfaces.push((name.to_owned(), settings(&entry)?));
        }
        if interfaces.is_empty() {
            return Ok(());
        }
        // Without network data, cloud-init asks for an address by DHCP on the first interface; with it, on none.
        let has_pod_network = vmi.networks().any(|network| network.get("pod").is_some());
        if cloud_init.network_data().trim().is_empty() && has_pod_network {
            return Err(failed(
                "cloud-init configures the interfaces that its network data lists and no others: give the VMI \
                 networkData with the interface of its pod network",
            ));
        }
        cloud_init.edit_network_data(|network| {
            let place = ethernets(network)?;
            for (name, members) in &interfaces {
                for (member, value) in members {
                    network.set(&format!("{place}['{name}'].{member}"), value)?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Network data of version 2 has its interfaces below `ethernets`, at the top or below `network`.
fn ethernets(network: &mut Yaml) -> Result<&'static str, CloudInitError> {
    if network.contains("network.version")? {
        return Ok("network.ethernets");
    }
    if !network.contains("version")? {
        network.set("version", &json!(2))?;
    }
    Ok("ethernets")
}

/// The members of an interface: its MAC address finds it in the guest, whatever its name is there.
fn settings(entry: &pod::PodNetwork) -> Result<Vec<(&'static str, Value)>> {
    let addresses: Result<Vec<String>> = entry.ips.iter().map(|ip| with_prefix(ip)).collect();
    if entry.mac.is_empty() {
        return Err(failed(format!("{} has no MAC address", entry.name)));
    }
    let mut members = vec![
        ("match.macaddress", json!(entry.mac)),
        ("dhcp4", json!(false)),
        ("addresses", json!(addresses?)),
    ];
    let routes = entry.gateways().into_iter();
    let routes: Vec<Value> = routes
        .map(|via| json!({"to": "default", "via": via}))
        .collect();
    if !routes.is_empty() {
        members.push(("routes", json!(routes)));
    }
    Ok(members)
}

fn with_prefix(ip: &str) -> Result<String> {
    let (key, usual) = match ip.contains(':') {
        true => (IPV6_PREFIX, 64),
        false => (IPV4_PREFIX, 24),
    };
    let prefix = match host::config(key) {
        Some(text) => text.parse::<u8>().context(format!("{key}: {text}"))?,
        None => usual,
    };
    Ok(format!("{ip}/{prefix}"))
}

hooks_sdk::export!(StaticAddresses);
