//! After a migration: refreshes the links of the guest's interfaces and sets its clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use domain::libvirt_spec::Alias;
use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Interface;
use libvirt::{Affect, Domain, XmlKind};

use crate::guest_agent::guest_clock_sync::GuestClockSync;
use crate::libvirt_client::COMMAND;
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;

/// The migration method of interfaces whose links are to be refreshed.
const LINK_REFRESH: &str = "link-refresh";
/// How long a link is down. Guests ignore a link that comes back at once.
const LINK_DOWN_TIME: Duration = Duration::from_millis(100);

/// Lets the guest adapt to its new node: the links of interfaces that ask for it are taken down and up again, so that
/// the guest renews its DHCP leases, and the clock is set. Also called at clean-up, when the domain may be gone.
pub(in crate::manager) async fn finalize_migration(
    vm: &VmContext,
    request: &SyncRequest,
) -> Result<CommandSuccess, CommandError> {
    let Some(domain) = vm.client.lookup().await? else {
        return Ok(CommandSuccess::Unchanged);
    };
    if vm.client.state_of(&domain).await?.is_down() {
        return Ok(CommandSuccess::Unchanged);
    }
    let interfaces = &request.vmi.spec.domain.devices.interfaces;
    let interfaces = interfaces_to_refresh(&request.options, interfaces);
    if !interfaces.is_empty() {
        refresh_links(vm, &domain, &interfaces).await?;
    }
    vm.driver_state().guest_clock = Some(GuestClockSync::start(vm.client.clone(), domain));
    Ok(CommandSuccess::Changed)
}

/// The interfaces whose links are refreshed. An interface whose link is to be down needs no refresh.
fn interfaces_to_refresh<'a>(options: &'a Options, interfaces: &[Interface]) -> Vec<&'a str> {
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

/// Refreshes the links. A failure does not keep the others from being refreshed; the first error is returned.
async fn refresh_links(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    interfaces: &[&str],
) -> Result<(), CommandError> {
    let xml = vm.client.xml(domain, XmlKind::Active).await?;
    let taken_down = vm.driver_state().links_taken_down.clone();
    let mut refreshed = Ok(());
    for link in links(&xml, interfaces, &taken_down)? {
        vm.driver_state().links_taken_down.insert(link.name.clone());
        let is_down = update(vm, domain, "taking a link down", link.down).await;
        tokio::time::sleep(LINK_DOWN_TIME).await;
        // Also after an error, since the link may be down despite it.
        let is_up = update(vm, domain, "taking a link up", link.up).await;
        if is_up.is_ok() {
            vm.driver_state().links_taken_down.remove(&link.name);
        }
        refreshed = refreshed.and(is_down).and(is_up);
    }
    refreshed
}

async fn update(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    what: &'static str,
    xml: String,
) -> Result<(), CommandError> {
    let update = move |domain: &dyn Domain| domain.update_device(&xml, Affect::LiveAndConfig);
    Ok(vm.client.on(domain, what, COMMAND, update).await?)
}

/// An interface in two versions, to update the device with.
#[derive(Debug, PartialEq)]
struct Link {
    /// The interface's name in the VMI.
    name: String,
    /// The interface with its link up.
    up: String,
    /// The interface with its link down.
    down: String,
}

/// The links to refresh. A link that is down stays down, because a hook on the target may have set it so, unless an
/// earlier refresh has taken it down and not up again.
fn links(
    xml: &str,
    interfaces: &[&str],
    taken_down: &HashSet<String>,
) -> Result<Vec<Link>, CommandError> {
    let document = Document::parse(xml).map_err(|error| {
        CommandError::DomainDescription(format!("libvirt's description of the domain: {error}"))
    })?;
    let devices = document.root().child("devices");
    let matching = devices
        .iter()
        .flat_map(|devices| devices.children_named("interface"))
        .filter_map(|interface| Some((name_of(interface)?, interface)))
        .filter(|(name, interface)| {
            interfaces.contains(&name.as_str())
                && (!is_down(interface) || taken_down.contains(name))
        });
    Ok(matching
        .map(|(name, interface)| Link {
            name,
            up: with_link_up(interface),
            down: with_link_down(interface),
        })
        .collect())
}

fn is_down(interface: &Element) -> bool {
    let state = interface.child("link").and_then(|link| link.attr("state"));
    state.is_some_and(|state| state == "down")
}

fn name_of(interface: &Element) -> Option<String> {
    let alias = interface.child("alias")?.attr("name")?;
    Some(Alias::name_in(&alias).to_owned())
}

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
    use super::*;

    #[test]
    fn links_are_those_of_the_requested_interfaces() {
        let xml = "<domain><devices><interface type='ethernet'><alias name='ua-default'/></interface>\
            <interface type='ethernet'><link state='up'/><alias name='ua-second'/></interface>\
            <disk type='file'><alias name='ua-second'/></disk></devices></domain>";
        let none = HashSet::new();
        let links = links(xml, &["second"], &none).unwrap();
        assert_eq!(links.len(), 1);
        let Link { name, up, down } = &links[0];
        assert_eq!(name, "second");
        assert!(
            !up.contains("state='down'") && down.contains("state='down'"),
            "{down}"
        );
        assert!(self::links("<domain", &["second"], &none).is_err());
    }

    #[test]
    fn link_that_is_down_is_refreshed_only_if_an_earlier_refresh_took_it_down() {
        let xml = "<domain><devices><interface type='ethernet'><link state='down'/>\
            <alias name='ua-second'/></interface></devices></domain>";
        assert_eq!(links(xml, &["second"], &HashSet::new()).unwrap(), []);
        let taken_down = HashSet::from(["second".to_owned()]);
        let Link { up, down, .. } = &links(xml, &["second"], &taken_down).unwrap()[0];
        assert!(!up.contains("down"), "{up}");
        assert!(down.contains("state='down'"), "{down}");
    }

    #[test]
    fn interface_that_is_to_be_down_is_not_refreshed() {
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
        assert_eq!(interfaces_to_refresh(&options, &interfaces), ["a"]);
    }

    #[test]
    fn interfaces_with_other_methods_are_not_refreshed() {
        let mut options = Options::default();
        for (name, method) in [("a", LINK_REFRESH), ("b", ""), ("c", "other")] {
            let migration = options.interface_migration.entry(name.into()).or_default();
            migration.method = method.into();
        }
        assert_eq!(interfaces_to_refresh(&options, &[]), ["a"]);
    }
}
