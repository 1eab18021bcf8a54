//! Removes leftovers of devices whose attach failed: from QEMU those that libvirt does not know, and from the
//! definition those that the running domain does not have.
//!
//! libvirt's daemon may die after it has given QEMU a device and before it has recorded that. The next daemon does not
//! know the device, and each further attach fails with `Duplicate device ID` until the device is removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{AttachLeftovers, BlockNode, QomMember};
use libvirt::{Affect, Domain};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{read_definition, read_live_domain};
use crate::libvirt_client::COMMAND;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::qmp_answer;

/// Timeout of all calls to QEMU's monitor together, so that the sync has time for its other changes.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(8);
/// How long to wait for the guest to release the devices, all together. A guest releases devices within milliseconds,
/// or does not react.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The pause after devices were released. libvirt handles QEMU's `DEVICE_DELETED` only while no call holds the domain;
/// if a device with the same alias is attached before that, libvirt takes the event for the new device.
const DEVICE_DELETED_DELAY: Duration = Duration::from_secs(1);

/// Removes the parts of devices whose attach failed. Returns whether anything was removed. A failure is only logged,
/// because the next attach then fails with an error of its own.
pub(super) async fn remove_failed_attaches(vm: &VmContext, domain: &Arc<dyn Domain>) -> bool {
    match try_remove(vm, domain).await {
        Ok(is_removed) => is_removed,
        Err(error) => {
            let reason = error.message();
            tracing::warn!(
                reason,
                "QEMU may still have devices that libvirt does not know"
            );
            false
        }
    }
}

async fn try_remove(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<bool, CommandError> {
    let devices = vm.driver_state().failed_attaches.devices();
    if devices.is_empty() {
        return Ok(false);
    }
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    let monitor = Monitor {
        vm,
        domain,
        deadline,
    };
    let peripherals = monitor.peripherals().await?;
    let nodes: Vec<BlockNode> = match devices.iter().any(|device| device.has_block_nodes()) {
        true => monitor.query("query-named-block-nodes", json!({})).await?,
        false => Vec::new(),
    };
    // Read after QEMU's answers, so that a device that libvirt has attached in between is not taken for a leftover.
    let live = read_live_domain(vm, domain).await?;
    let definition = read_definition(vm, domain).await?;
    let mut is_undefined = false;
    let mut all_leftovers = Vec::new();
    for device in &devices {
        let Some(leftovers) = AttachLeftovers::of(device, &peripherals, &nodes, &live) else {
            continue;
        };
        if let Some(xml) = definition.device(device.alias()) {
            is_undefined |= undefine_device(vm, domain, device.alias(), xml).await;
        }
        all_leftovers.push(leftovers);
    }
    let removal = monitor.remove(&all_leftovers).await?;
    for device in devices {
        if !removal.kept.contains(device.alias()) {
            vm.driver_state().failed_attaches.remove(device.alias());
        }
    }
    Ok(is_undefined || removal.is_any_removed)
}

/// Removes a device from the definition. A daemon that died during a detach leaves the device there, and libvirt
/// refuses to attach a second device with its alias. Returns whether the device was removed; a failure holds up no other
/// device.
async fn undefine_device(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    alias: &str,
    xml: String,
) -> bool {
    let detach = move |domain: &dyn Domain| domain.detach_device(&xml, Affect::Config);
    let what = "removing a device from the definition";
    match vm.client.on(domain, what, COMMAND, detach).await {
        Ok(()) => true,
        Err(error) => {
            let reason = error.message();
            tracing::warn!(
                alias,
                reason,
                "a device stays in the definition that the running domain does not have"
            );
            false
        }
    }
}

/// The result of [`Monitor::remove`].
#[derive(Default)]
struct Removal {
    /// Whether QEMU had a part of a device and has removed it.
    is_any_removed: bool,
    /// The aliases of devices that QEMU still has. Block nodes may stay, because libvirt creates new ones for the next
    /// attach.
    kept: BTreeSet<String>,
}

/// QEMU's monitor, through libvirt.
struct Monitor<'a> {
    vm: &'a VmContext,
    domain: &'a Arc<dyn Domain>,
    /// The deadline of all calls.
    deadline: Instant,
}

impl Monitor<'_> {
    /// Removes devices and then their backends, which are in use until the devices are gone. The guest is asked to
    /// release all devices before the wait for the first.
    async fn remove(&self, all_leftovers: &[AttachLeftovers]) -> Result<Removal, CommandError> {
        let mut removal = Removal::default();
        for id in all_leftovers
            .iter()
            .filter_map(|leftovers| leftovers.device.as_ref())
        {
            tracing::warn!(
                device = id,
                "QEMU has a device that libvirt does not know: it is removed"
            );
            let _: bool = self.change("device_del", json!({ "id": id })).await?;
            removal.kept.insert(id.clone());
        }
        let requested = removal.kept.len();
        removal.kept = self.wait_for_release(removal.kept).await?;
        for id in &removal.kept {
            let reason = "the guest does not release it";
            tracing::warn!(
                device = id,
                reason,
                "a device that libvirt does not know stays"
            );
        }
        if removal.kept.len() < requested {
            removal.is_any_removed = true;
            tokio::time::sleep(DEVICE_DELETED_DELAY).await;
        }
        let is_kept = |id: &String| removal.kept.contains(id);
        let released = all_leftovers
            .iter()
            .filter(|leftovers| !leftovers.device.as_ref().is_some_and(is_kept));
        let mut nodes = Vec::new();
        for leftovers in released {
            if let Some(id) = &leftovers.netdev {
                removal.is_any_removed |= self.change("netdev_del", json!({ "id": id })).await?;
            }
            nodes.extend_from_slice(&leftovers.nodes);
        }
        let left = self.remove_nodes(&nodes).await?;
        removal.is_any_removed |= left.len() < nodes.len();
        if !left.is_empty() {
            tracing::warn!(nodes = ?left, "block devices that libvirt does not know stay");
        }
        Ok(removal)
    }

    /// Removes block nodes. QEMU refuses to remove a node while another node or a device uses it, so refused nodes are
    /// tried again. Returns those that stay.
    async fn remove_nodes(&self, nodes: &[String]) -> Result<Vec<String>, CommandError> {
        let release_deadline = Instant::now() + RELEASE_TIMEOUT;
        let mut left = nodes.to_vec();
        while !left.is_empty() && Instant::now() < release_deadline {
            let before = left.len();
            for node in std::mem::take(&mut left) {
                let arguments = json!({ "node-name": node });
                if !self.change("blockdev-del", arguments).await? {
                    left.push(node);
                }
            }
            if left.len() == before {
                tokio::time::sleep(RELEASE_POLL_INTERVAL).await;
            }
        }
        Ok(left)
    }

    /// Waits until the guest has released the devices. Returns those that QEMU still has at the timeout.
    async fn wait_for_release(
        &self,
        mut devices: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, CommandError> {
        let release_deadline = Instant::now() + RELEASE_TIMEOUT;
        while !devices.is_empty() {
            let peripherals = self.peripherals().await?;
            devices.retain(|id| peripherals.iter().any(|member| member.name == *id));
            if devices.is_empty() || Instant::now() >= release_deadline {
                break;
            }
            tokio::time::sleep(RELEASE_POLL_INTERVAL).await;
        }
        Ok(devices)
    }

    async fn peripherals(&self) -> Result<Vec<QomMember>, CommandError> {
        self.query("qom-list", json!({ "path": "/machine/peripheral" }))
            .await
    }

    /// Runs a command. Returns whether QEMU has carried it out.
    async fn change(&self, command: &'static str, arguments: Value) -> Result<bool, CommandError> {
        match qmp_answer::parse::<Value>(&self.send(command, &arguments).await?) {
            Ok(_) => Ok(true),
            Err(reason) => {
                tracing::debug!(command, %arguments, %reason, "QEMU has not carried out a command");
                Ok(false)
            }
        }
    }

    async fn query<T: DeserializeOwned>(
        &self,
        command: &'static str,
        arguments: Value,
    ) -> Result<T, CommandError> {
        Ok(qmp_answer::parse(&self.send(command, &arguments).await?)?)
    }

    async fn send(&self, command: &'static str, arguments: &Value) -> Result<String, CommandError> {
        let command = json!({ "execute": command, "arguments": arguments }).to_string();
        let send = move |domain: &dyn Domain| domain.qemu_command(&command);
        let class = COMMAND.within(self.deadline.saturating_duration_since(Instant::now()));
        let what = "asking QEMU's monitor";
        Ok(self.vm.client.on(self.domain, what, class, send).await?)
    }
}
