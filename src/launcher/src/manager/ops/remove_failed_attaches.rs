//! Removes what is left of devices whose attach failed: from QEMU what libvirt does not know, and what only the definition
//! has.
//!
//! libvirt's daemon may die after QEMU has got a device and before the daemon has noted it. The next daemon does not know
//! the device, and each further attach fails with `Duplicate device ID`, until the device is removed.

use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{AttachLeftovers, BlockNode, QomMember};
use libvirt::{Affect, Domain};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::read_live_domain::{read_definition, read_live_domain};
use crate::libvirt_client::COMMAND;
use crate::manager::error::OpError;
use crate::manager::vm_context::VmContext;
use crate::qmp_answer;

/// A guest releases a device within milliseconds, or does not react.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// libvirt handles QEMU's `DEVICE_DELETED` only when no call holds the domain. If a device with the same alias is
/// attached earlier, libvirt takes the event for that device.
const DEVICE_DELETED_DELAY: Duration = Duration::from_secs(1);

/// Removes what QEMU has of devices whose attach failed. Returns whether something was removed. A failure is logged: the
/// next attach has an error of its own.
pub(super) async fn remove_failed_attaches(vm: &VmContext, domain: &Arc<dyn Domain>) -> bool {
    match try_remove(vm, domain).await {
        Ok(is_removed) => is_removed,
        Err(error) => {
            let reason = error.message();
            tracing::warn!(
                reason,
                "QEMU is not searched for devices that libvirt does not know"
            );
            false
        }
    }
}

async fn try_remove(vm: &VmContext, domain: &Arc<dyn Domain>) -> Result<bool, OpError> {
    let devices = vm.driver_state().failed_attaches.devices();
    if devices.is_empty() {
        return Ok(false);
    }
    let monitor = Monitor { vm, domain };
    let peripherals = monitor.peripherals().await?;
    let nodes: Vec<BlockNode> = match devices.iter().any(|device| device.has_block_nodes()) {
        true => monitor.ask("query-named-block-nodes", json!({})).await?,
        false => Vec::new(),
    };
    // After QEMU's answers: a device that libvirt has attached in between is not a leftover.
    let live = read_live_domain(vm, domain).await?;
    let definition = read_definition(vm, domain).await?;
    let mut is_removed = false;
    for device in devices {
        let nothing_left = match AttachLeftovers::of(&device, &peripherals, &nodes, &live) {
            None => true,
            Some(leftovers) => {
                if let Some(xml) = definition.device(device.alias()) {
                    undefine_device(vm, domain, xml).await?;
                    is_removed = true;
                }
                let removal = monitor.remove(&leftovers).await?;
                is_removed |= removal.is_any_removed;
                removal.nothing_left
            }
        };
        if nothing_left {
            vm.driver_state().failed_attaches.remove(device.alias());
        }
    }
    Ok(is_removed)
}

/// Removes a device from the definition: a daemon that died inside of a detach leaves it there, and libvirt refuses to
/// attach a second one of its name.
async fn undefine_device(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    xml: String,
) -> Result<(), OpError> {
    let detach = move |domain: &dyn Domain| domain.detach_device(&xml, Affect::Config);
    let what = "removing a device from the definition";
    Ok(vm.client.on(domain, what, COMMAND, detach).await?)
}

/// The result of [`Monitor::remove`].
struct Removal {
    /// QEMU had a part of the device, and has removed it.
    is_any_removed: bool,
    /// The device itself is not in QEMU any more. Block nodes may stay: libvirt gives the next attach new ones.
    nothing_left: bool,
}

/// QEMU's monitor, through libvirt.
struct Monitor<'a> {
    vm: &'a VmContext,
    domain: &'a Arc<dyn Domain>,
}

impl Monitor<'_> {
    /// Removes the device first, since its backends are in use until it is gone.
    async fn remove(&self, leftovers: &AttachLeftovers) -> Result<Removal, OpError> {
        let mut is_any_removed = false;
        if let Some(id) = &leftovers.device {
            tracing::warn!(
                device = id,
                "QEMU has a device that libvirt does not know: it is removed"
            );
            let _: bool = self.change("device_del", json!({ "id": id })).await?;
            if !self.is_released(id).await? {
                let reason = "the guest does not release it";
                tracing::warn!(
                    device = id,
                    reason,
                    "a device that libvirt does not know stays"
                );
                return Ok(Removal {
                    is_any_removed,
                    nothing_left: false,
                });
            }
            is_any_removed = true;
            tokio::time::sleep(DEVICE_DELETED_DELAY).await;
        }
        if let Some(id) = &leftovers.netdev {
            is_any_removed |= self.change("netdev_del", json!({ "id": id })).await?;
        }
        let nodes = self.remove_nodes(&leftovers.nodes).await?;
        is_any_removed |= nodes.len() < leftovers.nodes.len();
        if !nodes.is_empty() {
            tracing::warn!(?nodes, "block devices that libvirt does not know stay");
        }
        Ok(Removal {
            is_any_removed,
            nothing_left: true,
        })
    }

    /// A node goes when no other node and no device uses it, also one that is about to end. Returns those that stay.
    async fn remove_nodes(&self, nodes: &[String]) -> Result<Vec<String>, OpError> {
        let give_up = Instant::now() + RELEASE_TIMEOUT;
        let mut left = nodes.to_vec();
        while !left.is_empty() && Instant::now() < give_up {
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

    async fn is_released(&self, id: &str) -> Result<bool, OpError> {
        let give_up = Instant::now() + RELEASE_TIMEOUT;
        loop {
            let peripherals = self.peripherals().await?;
            if !peripherals.iter().any(|member| member.name == id) {
                return Ok(true);
            }
            if Instant::now() >= give_up {
                return Ok(false);
            }
            tokio::time::sleep(RELEASE_POLL_INTERVAL).await;
        }
    }

    async fn peripherals(&self) -> Result<Vec<QomMember>, OpError> {
        self.ask("qom-list", json!({ "path": "/machine/peripheral" }))
            .await
    }

    /// Whether QEMU has carried the command out.
    async fn change(&self, command: &'static str, arguments: Value) -> Result<bool, OpError> {
        match qmp_answer::parse::<Value>(&self.send(command, &arguments).await?) {
            Ok(_) => Ok(true),
            Err(reason) => {
                tracing::debug!(command, %arguments, %reason, "QEMU has not carried out a command");
                Ok(false)
            }
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        command: &'static str,
        arguments: Value,
    ) -> Result<T, OpError> {
        Ok(qmp_answer::parse(&self.send(command, &arguments).await?)?)
    }

    async fn send(&self, command: &'static str, arguments: &Value) -> Result<String, OpError> {
        let command = json!({ "execute": command, "arguments": arguments }).to_string();
        let send = move |domain: &dyn Domain| domain.qemu_command(&command);
        let what = "asking QEMU's monitor";
        Ok(self.vm.client.on(self.domain, what, COMMAND, send).await?)
    }
}
