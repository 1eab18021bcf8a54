use std::sync::Arc;
use std::time::Duration;

use domain::libvirt_spec::Alias;
use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Interface;
use libvirt::{Affect, Domain, XmlKind};

use crate::agent::guest_time::GuestTimeSync;
use crate::libvirt_client::COMMAND;
use crate::manager::CommandEffect;
use crate::manager::error::OpError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;

/// The method of an interface that asks for this in the options.
const LINK_REFRESH: &str = "link-refresh";
/// Guests ignore a link that comes back at once.
const LINK_DOWN: Duration = Duration::from_millis(100);

/// Lets the guest notice that it has moved: links of interfaces that ask for it go down and up again, so that the
/// guest renews its leases, and the clock is set. Also called at clean-up, when the domain may be gone.
pub(in crate::manager) async fn finalize_migration(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<CommandEffect, OpError> {
    let Some(domain) = vm.client.lookup().await? else {
        return Ok(CommandEffect::AlreadySo);
    };
    if vm.client.state_of(&domain).await?.is_down() {
        return Ok(CommandEffect::AlreadySo);
    }
    let interfaces = &request.vmi.spec.domain.devices.interfaces;
    let interfaces = to_refresh(&request.options, interfaces);
    if !interfaces.is_empty() {
        refresh_links(vm, &domain, &interfaces).await?;
    }
    vm.driver_state().guest_time = Some(GuestTimeSync::start(vm.client.clone(), domain));
    Ok(CommandEffect::Changed)
}

/// The interfaces whose links are refreshed; one whose link is to be down needs no refresh.
fn to_refresh<'a>(options: &'a Options, interfaces: &[Interface]) -> Vec<&'a str> {
    let is_down = |name: &str| {
        let mut interfaces = interfaces.iter();
        interfaces.any(|interface| interface.name == name && interface.state == "down")
    };
    let migrations = options.interface_migration.iter();
    migrations
        .filter(|(name, migration)| migration.method == LINK_REFRESH && !is_down(name))
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Refreshes each link, whatever becomes of the others; the first error is returned.
async fn refresh_links(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    interfaces: &[&str],
) -> Result<(), OpError> {
    let xml = vm.client.xml(domain, XmlKind::Active).await?;
    let mut refreshed = Ok(());
    for (up, down) in links(&xml, interfaces)? {
        let is_down = update(vm, domain, "taking a link down", down).await;
        tokio::time::sleep(LINK_DOWN).await;
        // Also after an error: the link may be down all the same.
        let is_up = update(vm, domain, "taking a link up", up).await;
        refreshed = refreshed.and(is_down).and(is_up);
    }
    refreshed
}

async fn update(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    what: &'static str,
    xml: String,
) -> Result<(), OpError> {
    let update = move |domain: &dyn Domain| domain.update_device(&xml, Affect::LiveAndConfig);
    Ok(vm.client.on(domain, what, COMMAND, update).await?)
}

/// Each of the interfaces with its link up, and the same with its link down.
fn links(xml: &str, interfaces: &[&str]) -> Result<Vec<(String, String)>, OpError> {
    let document = Document::parse(xml).map_err(|error| {
        OpError::Description(format!("libvirt's description of the domain: {error}"))
    })?;
    let devices = document.root().child("devices");
    let found = devices
        .iter()
        .flat_map(|devices| devices.children_named("interface"))
        .filter(|interface| has_alias(interface, interfaces));
    Ok(found
        .map(|interface| (with_link_up(interface), with_link_down(interface)))
        .collect())
}

fn has_alias(interface: &Element, names: &[&str]) -> bool {
    let alias = interface
        .child("alias")
        .and_then(|alias| alias.attr("name"));
    alias.is_some_and(|alias| names.contains(&Alias::name_in(&alias)))
}

/// An earlier attempt may have left the link down.
fn with_link_up(interface: &Element) -> String {
    let mut up = interface.clone();
    up.remove_child("link");
    up.render()
}

fn with_link_down(interface: &Element) -> String {
    let mut down = interface.clone();
    down.ensure_child("link").set_attr("state", "down");
    down.render()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_interfaces_that_ask_for_it_lose_their_link() {
        let xml = "<domain><devices><interface type='ethernet'><alias name='ua-default'/></interface>\
            <interface type='ethernet'><link state='up'/><alias name='ua-second'/></interface>\
            <disk type='file'><alias name='ua-second'/></disk></devices></domain>";
        let links = links(xml, &["second"]).unwrap();
        assert_eq!(links.len(), 1);
        let (up, down) = &links[0];
        assert!(
            !up.contains("state='down'") && down.contains("state='down'"),
            "{down}"
        );
        assert!(self::links("<domain", &["second"]).is_err());
    }

    #[test]
    fn link_that_an_earlier_attempt_left_down_comes_up() {
        let xml = "<domain><devices><interface type='ethernet'><link state='down'/>\
            <alias name='ua-second'/></interface></devices></domain>";
        let (up, down) = &links(xml, &["second"]).unwrap()[0];
        assert!(!up.contains("down"), "{up}");
        assert!(down.contains("state='down'"), "{down}");
    }

    #[test]
    fn link_that_is_to_be_down_stays_down() {
        let mut options = Options::default();
        for name in ["a", "b"] {
            let migration = options.interface_migration.entry(name.into()).or_default();
            migration.method = LINK_REFRESH.into();
        }
        let interface = |name: &str, state: &str| Interface {
            name: name.into(),
            state: state.into(),
            ..Interface::default()
        };
        let interfaces = [interface("a", "up"), interface("b", "down")];
        assert_eq!(to_refresh(&options, &interfaces), ["a"]);
    }

    #[test]
    fn other_methods_refresh_nothing() {
        let mut options = Options::default();
        for (name, method) in [("a", LINK_REFRESH), ("b", ""), ("c", "other")] {
            let migration = options.interface_migration.entry(name.into()).or_default();
            migration.method = method.into();
        }
        assert_eq!(to_refresh(&options, &[]), ["a"]);
    }
}
