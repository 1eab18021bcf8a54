//! Elements that are nothing but containers: libvirt reads their children and nothing of themselves, so that a domain with
//! an empty one is the same as without.
//!
//! A grant of something in such an element includes that the missing element is made, since that alone changes nothing.
//! Elements whose presence or defaults have a meaning are not among them, however empty: `<hyperv/>`, `<acpi/>` and all
//! others in `features`, those in `memoryBacking`, `<cpu/>`, `<clock/>`, `<driver/>`, any device.

use domain_xml::Element;

/// The names of parent and child. libvirt reads each once in its parent, so that a new one is no second one.
pub(super) const CONTAINERS: &[(&str, &str)] = &[
    // Tuning of cgroups and threads: each child is a setting, and there is no default without it.
    ("domain", "blkiotune"),
    ("domain", "cputune"),
    ("domain", "memtune"),
    // libvirt looks for `numatune/memory` and `numatune/memnode`.
    ("domain", "numatune"),
    // A list; `iothreads` is their number.
    ("domain", "iothreadids"),
    // Lists of events, and of states that the guest may enter. What is not listed has libvirt's default.
    ("domain", "perf"),
    ("domain", "pm"),
    // Limits of throughput: one that is not there is no limit.
    ("disk", "iotune"),
    ("interface", "tune"),
    // Entries of tables of SMBIOS; libvirt drops a table without entries.
    ("sysinfo", "bios"),
    ("sysinfo", "chassis"),
    ("sysinfo", "system"),
];

/// Whether an element is a container, without attributes and text of its own, around at least one element. Names are
/// compared with their prefixes: in a namespace the element is another one.
pub(super) fn is_container(element: &Element, parent: Option<&Element>) -> bool {
    let parent = parent.map_or("", Element::canonical_name);
    let name = element.canonical_name();
    CONTAINERS.contains(&(parent, name))
        && element.attribute_names().next().is_none()
        && element.text().trim().is_empty()
        && element.children().next().is_some()
}
