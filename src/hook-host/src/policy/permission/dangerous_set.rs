//! The dangerous set, which no wildcard matches.
//!
//! QEMU and libvirt open the files, run the programs and take the devices that these elements and
//! attributes name, with the rights of the launcher's container. Names are compared without their
//! prefixes: libvirt ignores the namespaces of attributes (as libxml2's `xmlGetProp` does), and the
//! same rule is applied to elements.
//!
//! `element_rules` and `attribute_rules` are the rules: where, for which values, and in which kind.
//! `reviewed_schema_names.txt` lists all other names of libvirt's schema, and a test compares both
//! with the schema.

mod rules;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::LazyLock;

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use rules::{ATTRIBUTE_RULES, ELEMENT_RULES, Rule, When};

/// The version of libvirt whose schema the rules were reviewed against.
pub const REVIEWED_LIBVIRT: (u32, u32, u32) = (11, 3, 0);

/// A warning if the libvirt of this version is newer than [`REVIEWED_LIBVIRT`]. The version is encoded as by libvirt:
/// 11003000 for 11.3.0. Patch releases add no elements.
#[must_use]
pub fn unreviewed_libvirt(packed: u64) -> Option<String> {
    let (major, minor) = (packed / 1_000_000, packed / 1_000 % 1_000);
    let (reviewed_major, reviewed_minor, _) = REVIEWED_LIBVIRT;
    let is_newer = (major, minor) > (u64::from(reviewed_major), u64::from(reviewed_minor));
    is_newer.then(|| {
        format!(
            "libvirt {major}.{minor} is newer than {reviewed_major}.{reviewed_minor}, whose schema the \
             dangerous set was reviewed for: it may have elements that hooks should not change without the operator's word"
        )
    })
}

/// In which of the two documents a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLocation {
    /// Only in the document before; its parent may be removed too.
    Before,
    /// Only in the document before; its parent is in both documents.
    Removed,
    /// Only in the document after.
    After,
    /// In both documents; the node of the document after is checked.
    Edited,
    /// In a pattern, which matches every value.
    InPattern,
}

impl NodeLocation {
    /// The location of the ancestors of a changed node: a new node is in elements of both documents.
    pub(super) fn of_parent(self) -> Self {
        match self {
            Self::After => Self::Edited,
            other => other,
        }
    }
}

const HYPERVISORS: &[&str] = &["qemu", "lxc", "xen", "bhyve"];

/// The prefix and the local name: `("qemu", "arg")` for `qemu:arg`. The prefix is empty if the name has none.
fn split_prefix(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

/// The name without its prefix: `arg` for `qemu:arg`.
pub(crate) fn local(name: &str) -> &str {
    split_prefix(name).1
}

/// The rules by `(true, ATTRIBUTE)`, or by `(false, ELEMENT)` for rules about elements.
static RULES_BY_NAME: LazyLock<HashMap<(bool, &str), Vec<&Rule>>> = LazyLock::new(|| {
    let mut index: HashMap<_, Vec<&Rule>> = HashMap::new();
    for rule in ELEMENT_RULES.iter().chain(ATTRIBUTE_RULES) {
        let name = rule.attribute.or(rule.element).unwrap_or_default();
        let key = (rule.attribute.is_some(), name);
        index.entry(key).or_default().push(rule);
    }
    index
});

/// The rules for a node, by the names of its parent, its element and its attribute.
fn rules_for<'a>(
    parent: &'a str,
    element: &'a str,
    attribute: Option<&'a str>,
) -> impl Iterator<Item = &'static Rule> + 'a {
    let key = (attribute.is_some(), attribute.unwrap_or(element));
    let named = RULES_BY_NAME.get(&key).into_iter().flatten().copied();
    named.filter(move |rule| {
        rule.element.is_none_or(|name| name == element)
            && rule.parent.is_none_or(|name| name == parent)
    })
}

impl Rule {
    fn applies(&self, location: NodeLocation, value: impl FnOnce() -> String) -> bool {
        match (self.when, location) {
            (When::Always, _)
            | (_, NodeLocation::InPattern)
            | (When::Removed, NodeLocation::Removed)
            | (When::Added, NodeLocation::After) => true,
            (When::AddedOrChangedTo(is_dangerous), NodeLocation::After | NodeLocation::Edited)
            | (When::ChangedTo(is_dangerous), NodeLocation::Edited) => is_dangerous(&value()),
            // Of `With`, the value is that of the other attribute.
            (When::With(_, is_dangerous), _) => is_dangerous(&value()),
            (When::AddedOrChangedTo(_) | When::ChangedTo(_) | When::Removed | When::Added, _) => {
                false
            }
        }
    }
}

/// The parent's name without its prefix; empty if there is no parent.
pub(super) fn parent_name(parent: Option<&Element>) -> &str {
    parent.map_or("", |parent| local(parent.tag_name()))
}

/// The danger of an element and its content.
pub(super) fn of_element(
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    if HYPERVISORS.contains(&split_prefix(element.canonical_name()).0) {
        return Some(DangerKind::Hypervisor);
    }
    let (parent, name) = (parent_name(parent), local(element.tag_name()));
    let mut rules = rules_for(parent, name, None);
    let rule = rules.find(|rule| {
        let reads_text = matches!(rule.when, When::AddedOrChangedTo(_) | When::ChangedTo(_));
        // libvirt joins the texts of all descendants, so the text of an element with children can be any value.
        let is_split = reads_text && element.children().next().is_some();
        let is_removed = matches!(location, NodeLocation::Before | NodeLocation::Removed);
        match rule.when {
            // libvirt ignores the prefix of an attribute.
            When::With(name, _) => {
                let mut values = element.attrs().filter(|(other, _)| local(other) == name);
                location == NodeLocation::InPattern
                    || values.any(|(_, value)| rule.applies(location, || value.into_owned()))
            }
            _ => (is_split && !is_removed) || rule.applies(location, || element.text()),
        }
    });
    rule.map(|rule| rule.kind)
}

/// Whether the rules for an element of this name depend on this attribute.
pub(crate) fn depends_on_attribute(element: &str, attribute: &str) -> bool {
    let mut rules = RULES_BY_NAME.get(&(false, element)).into_iter().flatten();
    rules.any(|rule| matches!(rule.when, When::With(name, _) if name == attribute))
}

/// The danger of an attribute whose element is not dangerous.
pub(super) fn of_attribute(
    attribute: &str,
    element: &Element,
    parent: Option<&Element>,
    location: NodeLocation,
) -> Option<DangerKind> {
    let (parent, name) = (parent_name(parent), local(element.tag_name()));
    let mut rules = rules_for(parent, name, Some(local(attribute)));
    // The value is only read if a rule needs it, because reading it scans the start tag.
    let rule = rules.find(|rule| match (location, element.attr(attribute)) {
        // The attribute is not there, so it has libvirt's default or no value.
        (NodeLocation::After | NodeLocation::Edited, None) => {
            let mut defaults = dangerous_defaults(element);
            defaults.any(|name| name == local(attribute))
                || rule.applies(NodeLocation::Before, String::new)
        }
        (location, value) => rule.applies(location, || value.unwrap_or_default().into_owned()),
    });
    let disguise = (!split_prefix(attribute).0.is_empty()).then_some(DangerKind::Disguise);
    rule.map(|rule| rule.kind).or(disguise)
}

/// Whether a pattern must name an element of this kind within an element of the kind `enclosing`. A
/// grant of a dangerous element includes its content, except for security labels and programs, and except for what
/// the host acts on in an element that the guest alone acts on.
pub(super) fn must_be_named(kind: DangerKind, enclosing: Option<DangerKind>) -> bool {
    let is_never_included = matches!(kind, DangerKind::SecurityLabel | DangerKind::Script);
    enclosing.is_none_or(|enclosing| {
        enclosing != kind && (is_never_included || enclosing.acts_on_guest_alone())
    })
}

/// As [`must_be_named`], for an attribute of an element of the kind `enclosing`, or in one.
pub(super) fn attribute_must_be_named(kind: DangerKind, enclosing: Option<DangerKind>) -> bool {
    enclosing.is_none_or(|enclosing| enclosing != kind && enclosing.acts_on_guest_alone())
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident: $description:literal,)*) => {
        /// A kind of the dangerous set: why a pattern must name a node to permit its change. The operator's policy
        /// grants a kind by its name (`dangerous: [DiskFormat]`), or single paths of the kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DangerKind {
            $($(#[doc = $doc])* $kind,)*
        }

        impl DangerKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Whether the guest alone acts on what is of this kind, and not the host. A grant of such an element says
            /// nothing about the files, programs and devices of the host that its content may name.
            pub(crate) fn acts_on_guest_alone(self) -> bool {
                matches!(self, Self::GuestProvisioning | Self::ConfidentialGuest)
            }

            /// The name of the kind in policies.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }
        }

        impl fmt::Display for DangerKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$kind => $description,)*
                })
            }
        }
    };
}

kinds! {
    /// `qemu:commandline` and all other elements that libvirt passes to a hypervisor unchecked (`lxc:`, `xen:`,
    /// `bhyve:` too).
    Hypervisor: "goes to the hypervisor past libvirt",
    /// `<emulator>`: the program that libvirt runs.
    Emulator: "is the program that runs the machine",
    /// Loader, NVRAM, kernel, initrd, command line, device tree and ACPI tables, which QEMU reads from files of the
    /// container; the firmware that libvirt chooses, with SMM, which Secure Boot depends on; a boot from the network.
    Boot: "is what the machine boots from",
    /// What makes programs in the guest run or trust something: entries of QEMU's `fwcfg`, OEM strings, and SMBIOS
    /// values that systemd or cloud-init take for instructions.
    GuestProvisioning: "is an instruction to Ignition, systemd or cloud-init in the guest",
    /// `<launchSecurity>`: how a confidential guest is protected from its host, and what it proves to its owner.
    ConfidentialGuest: "decides how the guest is protected from its host",
    /// An interface's `<script>`, `<downscript>` or `<backend>`, vhost-user helpers, and the virtiofsd of a
    /// `<filesystem>`: programs and devices.
    Script: "is a program that libvirt runs, or a device behind an interface",
    /// `<seclabel>`.
    SecurityLabel: "is a security label",
    /// `<source>` and `<mirror>` of any device, a random or smartcard backend, and types that interpret a source
    /// as something else.
    Source: "is where a device gets its data from",
    /// Any other value that names a file, directory, socket or host device.
    HostPath: "names a file, socket or device of the host",
    /// A disk's format: with a format that has a header, a guest that writes the header chooses the backing file.
    DiskFormat: "is a disk's format, which decides whether its header is believed",
    /// Settings that decide who else may write a disk, and whether its writes and a TPM's state are kept: `shareable`,
    /// `transient`, a removed `readonly`, ignored write errors, leases, `persistent_state`.
    DiskAccess: "decides who may write a disk, and whether writes are kept",
    /// References to libvirt's secrets: `auth`, `encryption`.
    Secret: "uses a secret of libvirt",
    /// `<filesystem>`.
    Filesystem: "shares a directory with the guest",
    /// `<hostdev>`, raw I/O and SCSI commands on a disk, SGX memory, and TPM, smartcard or input devices of the host.
    HostDevice: "gives a device of the host to the guest",
    /// How an interface is attached to the pod's network, forwarded ports, the vsock's address.
    HostNetwork: "decides how the guest is attached to the host's network",
    /// A display of the host: SDL, D-Bus, X authority; and the guest's own display on an address that others can reach.
    HostDisplay: "connects to a display or bus of the host, or shows the guest's display to others",
    /// Audio servers and devices of the host.
    HostAudio: "connects to an audio server or device of the host",
    /// Memory that is shared under a name.
    SharedMemory: "shares memory with other processes of the host",
    /// Host identity that the guest sees: SMBIOS of the host.
    HostIdentity: "shows the guest the host's identity",
    /// Realtime scheduling, cgroup partitions, cache and memory bandwidth of the host.
    HostScheduling: "decides about processor time and caches of the whole host",
    /// Dumps of the guest's memory, or of what it tells its TPM, to the host's disk.
    CoreDump: "writes the guest's memory or secrets to the host's disk",
    /// An attribute with a prefix: libvirt ignores the prefix and reads the attribute as if it had none.
    Disguise: "has a prefix, and is read as if it had none",
}

/// A name that is not a kind of the dangerous set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is neither a path that begins with /domain/ nor a kind of the dangerous set ({})",
    names()
)]
pub struct UnknownDanger {
    name: String,
}

fn names() -> String {
    let names: Vec<&str> = DangerKind::ALL.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

impl FromStr for DangerKind {
    type Err = UnknownDanger;

    fn from_str(name: &str) -> Result<Self, UnknownDanger> {
        let kind = Self::ALL.iter().find(|kind| kind.name() == name);
        kind.copied().ok_or_else(|| UnknownDanger {
            name: name.to_owned(),
        })
    }
}

// When libvirt takes the dangerous default of an attribute, and which changes lead to it.
//
// libvirt ignores the prefixes of attributes, so that names are compared without them.

/// An attribute for which libvirt takes a dangerous default value if an element does not have it. A pattern must name
/// the attribute for a new element that leaves it to the default, and for every other change after which an element does.
struct DangerousDefault {
    element: &'static str,
    attribute: &'static str,
    /// Whether libvirt takes the default for this element.
    is_taken: fn(&Element) -> bool,
}

/// Attributes with a dangerous default. Each attribute has a rule for its values too.
const DANGEROUS_DEFAULTS: &[DangerousDefault] = &[
    // libvirt's default is QEMU's own network (`user`), through which the guest has the network access of the
    // launcher's container.
    DangerousDefault {
        element: "interface",
        attribute: "type",
        is_taken: |interface| lacks_attribute(interface, "type"),
    },
    // Without a path, newer versions of libvirt take the socket of the host's service.
    DangerousDefault {
        element: "quoteGenerationService",
        attribute: "path",
        is_taken: |service| lacks_attribute(service, "path"),
    },
    // Without an address, VNC listens on `vnc_listen` of qemu.conf, which is 0.0.0.0 in KubeVirt's image and ours.
    DangerousDefault {
        element: "graphics",
        attribute: "listen",
        is_taken: display_has_no_address,
    },
    DangerousDefault {
        element: "listen",
        attribute: "address",
        is_taken: listen_has_no_address,
    },
];

/// The attributes for which libvirt takes a dangerous default in this element.
pub(super) fn dangerous_defaults(element: &Element) -> impl Iterator<Item = &str> {
    taken_defaults(element).map(|default| default.attribute)
}

fn taken_defaults(element: &Element) -> impl Iterator<Item = &'static DangerousDefault> {
    let name = local(element.tag_name());
    let of_element = DANGEROUS_DEFAULTS
        .iter()
        .filter(move |default| default.element == name);
    of_element.filter(|default| (default.is_taken)(element))
}

/// The attributes for which libvirt takes a dangerous default in an element since a change of it or of its content. A
/// spent budget leaves attributes out; the caller then refuses the change.
pub(super) fn new_dangerous_defaults(
    before: &Element,
    after: &Element,
    budget: &Budget<'_>,
) -> Vec<&'static str> {
    let name = local(after.tag_name());
    let has_default = DANGEROUS_DEFAULTS
        .iter()
        .any(|default| default.element == name);
    if !has_default {
        return Vec::new();
    }
    let cost = |element: &Element| {
        let children = element.children().count() as u64;
        budget.spend(children) && budget.spend_text(tag_bytes(element))
    };
    if !cost(before) || !cost(after) {
        return Vec::new();
    }
    let earlier: Vec<&str> = dangerous_defaults(before).collect();
    let taken = taken_defaults(after).map(|default| default.attribute);
    taken.filter(|name| !earlier.contains(name)).collect()
}

fn lacks_attribute(element: &Element, name: &str) -> bool {
    element.attribute_names().all(|other| local(other) != name)
}

/// Whether an attribute has this value, under each prefix.
fn is_attribute(element: &Element, name: &str, value: &str) -> bool {
    let mut values = element.attrs().filter(|(other, _)| local(other) == name);
    !lacks_attribute(element, name) && values.all(|(_, other)| other == value)
}

/// Types of displays that listen on no address by default, or on the loopback address as Spice does.
const CLOSED_BY_DEFAULT: [&str; 5] = ["spice", "sdl", "desktop", "egl-headless", "dbus"];

/// Whether a display, such as VNC, has neither a socket nor an address. Its address is that of its first `<listen>`, and
/// of `@listen`.
fn display_has_no_address(graphics: &Element) -> bool {
    let mut listens = graphics
        .children()
        .filter(|child| local(child.tag_name()) == "listen");
    let mut closed = CLOSED_BY_DEFAULT.iter();
    !closed.any(|kind| is_attribute(graphics, "type", kind))
        && lacks_attribute(graphics, "socket")
        && lacks_attribute(graphics, "listen")
        && listens.next().is_none_or(listen_has_no_address)
}

/// Whether a `<listen>` is for an address, and has none.
fn listen_has_no_address(listen: &Element) -> bool {
    let has_no_address = ["socket", "none", "network"]
        .iter()
        .any(|kind| is_attribute(listen, "type", kind));
    !has_no_address && lacks_attribute(listen, "address")
}

/// Whether an action on a crash writes the guest's memory to a file.
fn dumps_core(action: &str) -> bool {
    action.trim().starts_with("coredump")
}

/// Whether a disk of this type is something else than a file or block device.
fn is_not_file_or_block(kind: &str) -> bool {
    !matches!(kind, "file" | "block")
}

/// Whether a TPM backend of this type is a device of the host.
fn is_host_tpm(kind: &str) -> bool {
    kind != "emulator"
}

/// Whether a character device of this type connects to the host, and not only to a buffer or terminal of its own.
fn is_host_character_device(kind: &str) -> bool {
    !matches!(
        kind,
        "null" | "pty" | "vc" | "spicevmc" | "spiceport" | "qemu-vdagent"
    )
}

fn is_host_display(kind: &str) -> bool {
    !matches!(kind, "vnc" | "spice")
}

fn is_host_audio(kind: &str) -> bool {
    !matches!(kind, "none" | "spice")
}

/// Whether libvirt runs a process of its own for a video driver of this name.
fn is_out_of_process(driver: &str) -> bool {
    driver != "qemu"
}

/// Whether the guest sees the host's SMBIOS in this mode.
fn is_host_smbios(mode: &str) -> bool {
    !matches!(mode, "emulate" | "sysinfo")
}

/// Whether a time zone is a path, and not a name below the host's directory of time zones.
fn is_timezone_path(name: &str) -> bool {
    name.starts_with(['/', ':']) || name.contains("..") || name.contains('\\')
}

/// Whether a keymap is a path: QEMU tries the name as it is, in its working directory, before its directory of keymaps.
fn is_keymap_file(name: &str) -> bool {
    name.contains('/') || is_timezone_path(name)
}

/// Whether a channel's name makes the path of its socket lead out of libvirt's directory.
fn leads_out_of_directory(name: &str) -> bool {
    name.contains('/') || matches!(name, "." | "..")
}

/// Whether QEMU reads a value as more than one of its comma-separated options.
fn has_several_options(value: &str) -> bool {
    value.contains(',')
}

/// Whether a display listens on something else than the loopback address, which only the pod reaches.
fn is_not_loopback(value: &str) -> bool {
    let address = value.parse::<IpAddr>();
    value != "localhost" && !address.is_ok_and(|address| address.is_loopback())
}

/// Whether a `<sysinfo>` of this type is for programs in the guest, as `fwcfg` is.
fn is_not_smbios(kind: &str) -> bool {
    kind != "smbios"
}

/// Whether programs in the guest take an SMBIOS value for an instruction: `io.systemd.credential:NAME=...` and others of
/// systemd, `ds=nocloud;s=http://...` of cloud-init, and the names of clouds in [`CLOUD_NAMES`].
fn instructs_guest(value: &str) -> bool {
    let is_cloud = || {
        let value = value.to_ascii_lowercase();
        CLOUD_NAMES.iter().any(|name| value.contains(name))
    };
    value.trim_start().starts_with("io.systemd.") || value.contains("ds=") || is_cloud()
}

/// The names, in lower case, by which cloud-init recognises a cloud in SMBIOS: as the product, manufacturer or serial
/// number of the system, or the asset tag of its chassis. It then takes the configuration from that cloud's metadata
/// service, which is at a link-local address, so that whoever answers there in the pod's network is root in the guest.
/// They are those of cloud-init's `tools/ds-identify` and `cloudinit/sources` in August 2026. Each may be a part of the
/// value, as some are there.
const CLOUD_NAMES: &[&str] = &[
    // Azure
    "7783-7084-3265-9085-8269-3286-77",
    "3ds outscale",
    "akamai",
    "alibaba cloud ecs",
    "brightbox.com",
    "cloudcix",
    "cloudsigma",
    "cloudstack",
    "digitalocean",
    "e24cloud",
    "exoscale",
    "google compute engine",
    "googlecloud-",
    "hetzner",
    "huaweicloud",
    "linode",
    "nwcs",
    "openstack compute",
    "openstack nova",
    "opentelekomcloud",
    "oraclecloud.com",
    "samsung cloud platform",
    "sap ccloud vm",
    "scaleway",
    "smartdc",
    "tilaa",
    "upcloud",
    "vultr",
    "zstack.io",
];

// Whether a change puts a boot from the network before the boot from a disk.
//
// What an interface boots from is the word of the first server in the pod's network that answers. Changes of an
// interface's own `<boot>` are dangerous themselves; the order of a disk decides as well whether the interface's turn comes.

/// Whether an element is one of those whose order decides: the `<boot>` of a disk, or of `<os>`.
pub(super) fn is_boot_of_disk_or_os(element: &Element, parent: Option<&Element>) -> bool {
    local(element.tag_name()) == "boot" && matches!(parent_name(parent), "disk" | "os")
}

/// Whether something that was tried before the network is not tried before it any more. A spent budget ends the search;
/// the caller then refuses the change.
pub(super) fn boots_from_network_earlier(
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

#[cfg(test)]
mod tests;
