//! One configuration of a domain as XML. Name and UUID are interpreted; other elements are kept unchanged.

use std::collections::BTreeSet;

use domain_xml::{Document, Element};

use super::errors::xml_error;
use crate::error::Result;

/// The UUID that libvirt takes if the domain has no `<uuid>`.
const SMBIOS_UUID: &str = "sysinfo/system/entry[@name='uuid']";

/// The target of the guest agent's channel.
const AGENT_CHANNEL_TARGET: &str = "devices/channel/target[@name='org.qemu.guest_agent.0']";

/// One configuration of a domain.
#[derive(Clone)]
pub(super) struct DefinitionXml {
    document: Document,
    pub(super) name: String,
    pub(super) uuid: Option<String>,
}

impl DefinitionXml {
    pub(super) fn parse(xml: &str) -> Result<Self> {
        let document = Document::parse(xml).map_err(|error| xml_error(&error.to_string()))?;
        let root = document.root();
        if !root.is("domain") {
            return Err(xml_error("unexpected root element, expecting <domain>"));
        }
        let text = |name| root.child(name).map(|child| child.text().trim().to_owned());
        let name = text("name").filter(|name| !name.is_empty());
        Ok(DefinitionXml {
            name: name.ok_or_else(|| xml_error("missing domain name"))?,
            uuid: text("uuid")
                .or_else(|| document.value(SMBIOS_UUID).ok().flatten())
                .map(|uuid| uuid.to_lowercase()),
            document,
        })
    }

    /// Sets the domain's UUID. A new element is inserted after the name, where libvirt writes it.
    pub(super) fn set_uuid(&mut self, uuid: &str) {
        let root = self.document.root_mut();
        if root.child("uuid").is_none() {
            root.insert_after("name", Element::new("uuid"));
        }
        root.ensure_child("uuid").set_text(uuid);
        self.uuid = Some(uuid.to_owned());
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = &Element> {
        let devices = self.document.root().child("devices");
        devices.into_iter().flat_map(Element::children)
    }

    pub(super) fn devices_mut(&mut self) -> &mut Element {
        self.document.root_mut().ensure_child("devices")
    }

    /// Sets the current number of virtual CPUs. The error is the domain's maximum, if that is lower.
    pub(super) fn set_vcpus(&mut self, count: u32) -> std::result::Result<(), u32> {
        let vcpu = self.document.root_mut().ensure_child("vcpu");
        let maximum = vcpu.text().trim().parse().unwrap_or(1);
        if count > maximum {
            return Err(maximum);
        }
        vcpu.set_attr("current", count.to_string());
        Ok(())
    }

    /// The ids of the IO threads: those that are listed, or else all from 1 up to their number.
    pub(super) fn io_threads(&self) -> BTreeSet<u32> {
        let root = self.document.root();
        if let Some(listed) = root.child("iothreadids") {
            let ids = listed.children_named("iothread");
            return ids
                .filter_map(|thread| thread.attr("id")?.parse().ok())
                .collect();
        }
        let count = root.child("iothreads").map(Element::text);
        let count = count.and_then(|count| count.trim().parse().ok());
        (1..=count.unwrap_or(0)).collect()
    }

    /// Adds an IO thread. Returns whether there was none with this id.
    pub(super) fn add_io_thread(&mut self, id: u32) -> bool {
        let mut ids = self.io_threads();
        let is_new = ids.insert(id);
        let root = self.document.root_mut();
        root.remove_child("iothreadids");
        root.ensure_child("iothreads")
            .set_text(ids.len().to_string());
        let listed = root.ensure_child("iothreadids");
        for id in ids {
            listed.append(Element::new("iothread").with_attr("id", id.to_string()));
        }
        is_new
    }

    pub(super) fn render(&self) -> String {
        self.document.render()
    }

    /// The XML of the running domain: with its id, and the state of the guest agent's channel.
    pub(super) fn render_active(&self, id: u32, agent_connected: bool) -> String {
        let mut document = self.document.clone();
        document.root_mut().set_attr("id", id.to_string());
        // A domain without a channel for the agent gets none.
        if let Ok(Some(target)) = document.find_mut(AGENT_CHANNEL_TARGET) {
            let state = match agent_connected {
                true => "connected",
                false => "disconnected",
            };
            target.set_attr("state", state);
        }
        document.render()
    }
}
