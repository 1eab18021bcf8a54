//! Whether a change puts a boot from the network before the boot from a disk.
//!
//! What an interface boots from is the word of the first server in the pod's network that answers. Changes of an
//! interface's own `<boot>` are dangerous themselves; the order of a disk decides as well whether the interface's turn comes.

use std::collections::BTreeSet;

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use super::{local, parent_name};

/// Whether an element is one of those whose order decides: the `<boot>` of a disk, or of `<os>`.
pub(in super::super) fn is_boot_of_disk_or_os(element: &Element, parent: Option<&Element>) -> bool {
    local(element.tag_name()) == "boot" && matches!(parent_name(parent), "disk" | "os")
}

/// Whether something that was tried before the network is not tried before it any more. A spent budget ends the search;
/// the caller then refuses the change.
pub(in super::super) fn boots_from_network_earlier(
    before: &Element,
    after: &Element,
    budget: &Budget<'_>,
) -> bool {
    let lists: [fn(&Element, &Budget<'_>) -> BootOrder; 2] = [order_of_devices, order_of_os];
    lists.iter().any(|order| {
        let (old, new) = (order(before, budget), order(after, budget));
        let first = new.before_network();
        new.network.is_some() && !old.before_network().is_subset(&first)
    })
}

/// What a domain boots from, in one of the two ways to say it.
#[derive(Default)]
struct BootOrder {
    /// The first place of the network.
    network: Option<u64>,
    /// Names and places of everything else.
    others: Vec<(String, u64)>,
}

impl BootOrder {
    /// What is tried before the network; everything if the network is not tried.
    fn before_network(&self) -> BTreeSet<&str> {
        let before = self
            .others
            .iter()
            .filter(|(_, place)| self.network.is_none_or(|network| *place < network));
        before.map(|(name, _)| name.as_str()).collect()
    }

    fn add(&mut self, name: Option<String>, place: u64) {
        match name {
            Some(name) => self.others.push((name, place)),
            None => self.network = Some(self.network.map_or(place, |first| first.min(place))),
        }
    }
}

/// The devices with an `order`. A device that is no disk, as a network card of the host, may boot from the network.
fn order_of_devices(domain: &Element, budget: &Budget<'_>) -> BootOrder {
    let mut order = BootOrder::default();
    for device in children(domain, "devices", budget).flat_map(Element::children) {
        if !budget.spend(1) {
            break;
        }
        let places =
            children(device, "boot", budget).filter_map(|boot| attribute(boot, "order", budget));
        let Some(place) = places.filter_map(|place| place.trim().parse().ok()).min() else {
            continue;
        };
        let is_disk = local(device.tag_name()) == "disk";
        let target = || {
            let mut targets = children(device, "target", budget);
            let name = targets
                .next()
                .and_then(|target| attribute(target, "dev", budget));
            name.unwrap_or_default()
        };
        order.add(is_disk.then(target), place);
    }
    order
}

/// The list in `<os>`.
fn order_of_os(domain: &Element, budget: &Budget<'_>) -> BootOrder {
    let mut order = BootOrder::default();
    let boots = children(domain, "os", budget).flat_map(|os| children(os, "boot", budget));
    for (place, boot) in (0..).zip(boots) {
        let name = attribute(boot, "dev", budget).filter(|name| name != "network");
        order.add(name, place);
    }
    order
}

/// The children of one name.
fn children<'a>(
    element: &'a Element,
    name: &'static str,
    budget: &'a Budget<'_>,
) -> impl Iterator<Item = &'a Element> {
    let children = element.children().take_while(|_| budget.spend(1));
    children.filter(move |child| local(child.tag_name()) == name)
}

/// The value of an attribute, whatever its prefix.
fn attribute(element: &Element, name: &str, budget: &Budget<'_>) -> Option<String> {
    if !budget.spend_text(tag_bytes(element)) {
        return None;
    }
    let mut attributes = element.attrs();
    let named = attributes.find(|(other, _)| local(other) == name);
    named.map(|(_, value)| value.into_owned())
}
