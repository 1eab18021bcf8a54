//! Room for devices that are plugged while the guest runs: PCIe root ports, which only a definition can
//! make. Counted on the domain as the hooks leave it, so that what a hook adds takes nobody's place.
//!
//! ```text
//! hooked XML ─plan─▶ first ─define─▶ libvirt's own XML ─settled─▶ last ─define─▶ (a domain)
//!                    │ + placeholder interfaces           │ - placeholders, + spare ports
//!                    └ + spare ports, and no second definition, where nothing keeps a place free
//! ```
//!
//! A placeholder interface has libvirt make a root port beside those of the other interfaces; the port
//! stays when the placeholder goes. Spare ports come after all others. Which addresses the devices get is
//! libvirt's, and so the same as with KubeVirt's launcher (v1.9, `allocateHotplugPorts`).

mod count;
mod settle;

use domain_xml::{Document, Element};

use crate::vmi::Vmi;
pub use count::Room;

/// Names of placeholder interfaces are this and a number.
const PLACEHOLDER: &str = "placeholder-";
/// Root ports are functions of slots on the first bus; KubeVirt makes none beyond this index.
const LAST_PORT: usize = 31;

/// Why there is no making room.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// An annotation that is no number.
    #[error(
        "invalid {annotation} annotation value {value:?}: it must be a number of interfaces, at most {most}"
    )]
    Annotation {
        /// Its name.
        annotation: &'static str,
        /// What it says.
        value: String,
        /// The largest number.
        most: usize,
    },
    /// The domain is no XML.
    #[error("making room for hotplug: {0}")]
    Xml(#[from] domain_xml::ParseError),
    /// The domain's memory is no amount.
    #[error(
        "making room for hotplug: <memory unit={unit:?}>{amount}</memory> is no amount of memory"
    )]
    Memory {
        /// The element's text.
        amount: String,
        /// The element's unit.
        unit: String,
    },
}

/// How to define a domain so that there is room in it.
#[derive(Debug)]
pub struct Definition {
    room: Room,
    first: String,
    /// What to take out of libvirt's XML again, and what to add.
    rest: Option<settle::Rest>,
}

impl Definition {
    /// Plans the definition of a domain, as the hooks have left it.
    ///
    /// # Errors
    /// [`RoomError`] for an annotation or a domain that cannot be understood.
    pub fn plan(vmi: &Vmi, hooked: String) -> Result<Self, RoomError> {
        let mut domain = Document::parse(&hooked)?;
        let room = Room::of(vmi, &domain)?;
        let Room {
            placeholders,
            ports,
        } = room;
        if placeholders == 0 && ports == 0 {
            return Ok(Self {
                room,
                first: hooked,
                rest: None,
            });
        }
        let rest = (placeholders > 0).then(|| settle::Rest::new(&domain, ports));
        match rest {
            Some(_) => add_placeholders(&mut domain, vmi.virtio_model(), placeholders),
            None => add_ports(&mut domain, ports),
        }
        Ok(Self {
            room,
            first: domain.render(),
            rest,
        })
    }

    /// How much room there is to be.
    pub fn room(&self) -> Room {
        self.room
    }

    /// What libvirt is to define first.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// Whether libvirt's XML of the first definition is needed for a second one.
    pub fn has_second(&self) -> bool {
        self.rest.is_some()
    }

    /// What libvirt is to define in the end, where that is something else. `defined` is how libvirt
    /// describes the inactive domain after the first definition; everything in it is kept.
    ///
    /// # Errors
    /// [`RoomError::Xml`] when libvirt's description is no XML.
    pub fn second(&self, defined: &str) -> Result<Option<String>, RoomError> {
        self.rest
            .as_ref()
            .map(|rest| rest.settle(defined))
            .transpose()
    }
}

fn add_placeholders(domain: &mut Document, model: &str, count: usize) {
    let devices = domain.root_mut().ensure_child("devices");
    for number in 0..count {
        let target = Element::new("target")
            .with_attr("dev", format!("{PLACEHOLDER}{number}"))
            .with_attr("managed", "no");
        let placeholder = Element::new("interface")
            .with_attr("type", "ethernet")
            .with_child(target)
            .with_child(Element::new("model").with_attr("type", model));
        // After the others: libvirt gives places in this order.
        devices.insert_after("interface", placeholder);
    }
}

/// Adds empty root ports above those that are there.
fn add_ports(domain: &mut Document, count: usize) {
    let devices = domain.root_mut().ensure_child("devices");
    let indices = devices
        .children_named("controller")
        .filter(|controller| controller.attr("type").as_deref() == Some("pci"))
        .filter_map(|controller| controller.attr("index")?.parse::<usize>().ok());
    let first = indices.max().unwrap_or_default().saturating_add(1);
    for index in (first..=LAST_PORT).take(count) {
        let port = Element::new("controller")
            .with_attr("type", "pci")
            .with_attr("index", index.to_string())
            .with_attr("model", "pcie-root-port");
        devices.insert_after("controller", port);
    }
}
