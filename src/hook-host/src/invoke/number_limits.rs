//! Limits of the numbers in a domain that libvirt allocates memory for before it checks them.
//!
//! libvirt ends, with the machine that it runs, when it asks for memory that there is not: for 4,294,967,295 vCPUs it
//! asks for 32 GiB. Controllers up to the number that a disk's address or name asks for are added one by one, so that
//! the call does not end. The limits are far above what a machine of KubeVirt has, and hold for every hook.

use std::fmt;

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use crate::policy::permission::local;

/// KubeVirt's limit of a VMI's vCPUs.
const MAX_VCPUS: u64 = 8192;
const MAX_IOTHREADS: u64 = 1024;
/// The highest number of a PCI bus, and so of most controllers.
const MAX_CONTROLLER_INDEX: u64 = 255;
/// The number in a disk's name: `sda` is 0. libvirt adds a controller for every 2 to 7 of them.
const MAX_DISK_NUMBER: u64 = 1023;
/// The number of a cache or of a NUMA node of the host.
const MAX_HOST_ID: u64 = 1023;
/// Each cell has a distance to each other cell.
const MAX_NUMA_CELLS: usize = 1024;
/// libvirt compares each controller without an index with all others, once for each.
const MAX_CONTROLLERS: usize = 1024;
const MAX_DEVICES: usize = 4096;

/// A number above its limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// The value of an attribute or element.
    Value {
        /// The path, without predicates.
        path: String,
        value: String,
        limit: u64,
    },
    /// The number of elements of one name, or of all children of one parent.
    Count {
        what: &'static str,
        count: usize,
        limit: usize,
    },
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { path, value, limit } => write!(
                f,
                "{path} is {value:?}, and may be a number from 0 to {limit}: libvirt would run out of memory or time"
            ),
            Self::Count { what, count, limit } => write!(
                f,
                "there are {count} {what}, and may be {limit}: libvirt would run out of memory or time"
            ),
        }
    }
}

/// The first number of a domain that is above its limit. A spent budget ends the search; the caller then discards the
/// result.
pub(super) fn first_excess(domain: &Element, budget: &Budget<'_>) -> Option<Excess> {
    let search = Search { budget };
    domain
        .children()
        .find_map(|child| match local(child.tag_name()) {
            "vcpu" => search.text("/domain/vcpu", child, MAX_VCPUS),
            "iothreads" => search.text("/domain/iothreads", child, MAX_IOTHREADS),
            "cpu" => search.numa_cells(child),
            "cputune" => search.host_ids(child),
            "devices" => search.devices(child),
            _ => None,
        })
}

struct Search<'s, 'b> {
    budget: &'s Budget<'b>,
}

impl Search<'_, '_> {
    fn devices(&self, devices: &Element) -> Option<Excess> {
        let (mut count, mut controllers) = (0, 0);
        for device in devices.children() {
            count += 1;
            if !self.budget.spend(1) {
                return None;
            }
            let name = local(device.tag_name());
            if name == "controller" {
                controllers += 1;
                let path = || "/domain/devices/controller".to_owned();
                let excess = self.attribute(path, device, "index", MAX_CONTROLLER_INDEX);
                if excess.is_some() {
                    return excess;
                }
            }
            let excess =
                device
                    .children()
                    .find_map(|child| match (name, local(child.tag_name())) {
                        (_, "address") => {
                            let path = || format!("/domain/devices/{name}/address");
                            self.attribute(path, child, "controller", MAX_CONTROLLER_INDEX)
                        }
                        ("disk", "target") => self.disk_name(child),
                        _ => None,
                    });
            if excess.is_some() {
                return excess;
            }
        }
        within("controllers", controllers, MAX_CONTROLLERS)
            .or_else(|| within("devices", count, MAX_DEVICES))
    }

    fn numa_cells(&self, cpu: &Element) -> Option<Excess> {
        let numa = cpu
            .children()
            .filter(|child| local(child.tag_name()) == "numa");
        let cells = numa
            .flat_map(Element::children)
            .filter(|cell| self.budget.spend(1) && local(cell.tag_name()) == "cell");
        within("NUMA cells", cells.count(), MAX_NUMA_CELLS)
    }

    /// Checks the caches and NUMA nodes of the host whose bandwidth is limited.
    fn host_ids(&self, cputune: &Element) -> Option<Excess> {
        cputune.children().find_map(|tune| {
            let name = local(tune.tag_name());
            let of_host = match name {
                "cachetune" => "cache",
                "memorytune" => "node",
                _ => return None,
            };
            tune.children()
                .filter(|child| local(child.tag_name()) == of_host)
                .find_map(|child| {
                    let path = || format!("/domain/cputune/{name}/{of_host}");
                    self.attribute(path, child, "id", MAX_HOST_ID)
                })
        })
    }

    /// Checks the number in the name of a disk. libvirt reads letters as digits, after a prefix that it knows.
    fn disk_name(&self, target: &Element) -> Option<Excess> {
        let is_above = |name: &str| disk_number(name).is_some_and(|n| n > MAX_DISK_NUMBER);
        let value = self.values(target, "dev")?.find(|name| is_above(name))?;
        Some(Excess::Value {
            path: "/domain/devices/disk/target/@dev as a number of a disk".to_owned(),
            value,
            limit: MAX_DISK_NUMBER,
        })
    }

    /// Checks the text of an element. libvirt joins the texts of all its descendants, so that an element with children
    /// is no number.
    fn text(&self, path: &str, element: &Element, limit: u64) -> Option<Excess> {
        self.budget.spend(1);
        let text = element.text();
        let is_within = element.children().next().is_none() && is_number_within(&text, limit);
        (!is_within).then(|| Excess::Value {
            path: path.to_owned(),
            value: text,
            limit,
        })
    }

    fn attribute(
        &self,
        path: impl Fn() -> String,
        element: &Element,
        name: &str,
        limit: u64,
    ) -> Option<Excess> {
        let value = self
            .values(element, name)?
            .find(|value| !is_number_within(value, limit))?;
        Some(Excess::Value {
            path: format!("{}/@{name}", path()),
            value,
            limit,
        })
    }

    /// The values of an attribute, with any prefix, since libvirt ignores the prefix. `None` if the budget is spent.
    fn values<'e>(
        &self,
        element: &'e Element,
        name: &'e str,
    ) -> Option<impl Iterator<Item = String> + 'e> {
        let is_left = self.budget.spend(1) && self.budget.spend_text(tag_bytes(element));
        let named = element
            .attrs()
            .filter(move |(other, _)| local(other) == name);
        is_left.then(|| named.map(|(_, value)| value.into_owned()))
    }
}

/// Whether a text is a decimal number up to `limit`, or empty. libvirt reads other notations too: `-1` is its highest
/// number.
fn is_number_within(text: &str, limit: u64) -> bool {
    let digits = text.trim();
    digits.is_empty()
        || digits.bytes().all(|byte| byte.is_ascii_digit())
            && digits.parse().is_ok_and(|number: u64| number <= limit)
}

fn within(what: &'static str, count: usize, limit: usize) -> Option<Excess> {
    (count > limit).then_some(Excess::Count { what, count, limit })
}

/// The number of a disk, as libvirt reads its name: `sda` is 0, `sdaa` is 26.
fn disk_number(name: &str) -> Option<u64> {
    const PREFIXES: [&str; 6] = ["fd", "hd", "vd", "sd", "xvd", "ubd"];
    let letters = PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    let letters = letters.bytes().take_while(u8::is_ascii_lowercase);
    let counted_from_one = letters.fold(0_u64, |number, letter| {
        number
            .saturating_mul(26)
            .saturating_add(u64::from(letter - b'a') + 1)
    });
    counted_from_one.checked_sub(1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use domain_xml::Document;

    use super::*;

    fn excess(inside: &str) -> Option<String> {
        let domain = Document::parse(&format!("<domain>{inside}</domain>")).unwrap();
        first_excess(domain.root(), &Budget::unlimited()).map(|excess| excess.to_string())
    }

    #[test]
    fn numbers_up_to_their_limits_are_accepted_and_others_are_named() {
        for (inside, value, path) in [
            ("<vcpu>N</vcpu>", 8192, "/domain/vcpu"),
            ("<iothreads>N</iothreads>", 1024, "/domain/iothreads"),
            (
                "<devices><controller type='pci' index='N'/></devices>",
                255,
                "/domain/devices/controller/@index",
            ),
            (
                "<devices><disk><address type='drive' controller='N'/></disk></devices>",
                255,
                "/domain/devices/disk/address/@controller",
            ),
            (
                "<devices><channel><address type='virtio-serial' x:controller='N' xmlns:x='u'/></channel></devices>",
                255,
                "/domain/devices/channel/address/@controller",
            ),
            (
                "<cputune><cachetune><cache id='N'/></cachetune></cputune>",
                1023,
                "/domain/cputune/cachetune/cache/@id",
            ),
            (
                "<cputune><memorytune><node id='N'/></memorytune></cputune>",
                1023,
                "/domain/cputune/memorytune/node/@id",
            ),
        ] {
            let with = |text: &str| excess(&inside.replace('N', text));
            assert_eq!(with(&value.to_string()), None, "{path}");
            assert_eq!(with(&format!(" {value}\n")), None, "{path}");
            assert_eq!(with(""), None, "{path}");
            let above = (value + 1).to_string();
            for bad in [
                above.as_str(),
                "4294967295",
                "99999999999999999999",
                "-1",
                "+1",
                "0x1",
                "1e9",
            ] {
                let message = with(bad).unwrap();
                let names = [path, bad, &value.to_string()];
                assert!(names.iter().all(|part| message.contains(part)), "{message}");
            }
        }
        assert!(excess("<vcpu>1<x>000000</x></vcpu>").is_some());
        assert!(excess("<x:vcpu xmlns:x='u'>9999</x:vcpu>").is_some());
    }

    #[test]
    fn names_of_disks_are_numbers() {
        for (name, number) in [
            ("sda", Some(0)),
            ("sdz1", Some(25)),
            ("sdaa", Some(26)),
            ("xvdab", Some(27)),
            ("vd", None),
            ("tap0", None),
        ] {
            assert_eq!(disk_number(name), number, "{name}");
        }
        let disk = |name| {
            excess(&format!(
                "<devices><disk><target dev='{name}'/></disk></devices>"
            ))
        };
        assert_eq!(disk("sdamj"), None);
        for name in ["sdamk", "sdzzzz", &format!("sd{}", "z".repeat(1000))] {
            let message = disk(name).unwrap();
            assert!(
                message.contains(name) && message.contains("1023"),
                "{message}"
            );
        }
        assert_eq!(
            excess("<devices><interface><target dev='sdzzzz'/></interface></devices>"),
            None
        );
    }

    #[test]
    fn the_number_of_devices_controllers_and_cells_is_limited() {
        let devices = |name: &str, count| {
            excess(&format!(
                "<devices>{}</devices>",
                format!("<{name}/>").repeat(count)
            ))
        };
        let cells = |count| {
            excess(&format!(
                "<cpu><numa>{}</numa></cpu>",
                "<cell/>".repeat(count)
            ))
        };
        assert_eq!(devices("input", 4096), None);
        assert_eq!(devices("controller", 1024), None);
        assert_eq!(cells(1024), None);
        for (message, limit) in [
            (devices("input", 4097), "4096"),
            (devices("controller", 1025), "1024"),
            (cells(1025), "1024"),
        ] {
            assert!(message.unwrap().contains(limit));
        }
    }
}
