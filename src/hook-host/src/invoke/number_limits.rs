//! Limits of the numbers in a domain that libvirt allocates memory for before it checks them.
//!
//! libvirt ends, with the machine that it runs, when it asks for memory that there is not: for 4,294,967,295 vCPUs it
//! asks for 32 GiB. Controllers up to the number that a disk's address or name asks for are added one by one, so that
//! the call does not end. The limits are far above what a machine of KubeVirt has, and hold for every hook.

use domain_xml::Element;
use domain_xml::host::{Budget, tag_bytes};

use crate::policy::permission::local;

/// KubeVirt's limit of a VMI's vCPUs.
const MAX_VCPUS: u64 = 8192;
const MAX_IOTHREADS: u64 = 1024;
/// libvirt compares each ID with all others.
const MAX_IOTHREAD_IDS: usize = 1024;
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
#[derive(Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum Excess {
    /// The value of an attribute or element.
    #[error(
        "{path} is {value:?}, and may be a number from 0 to {limit}: libvirt would run out of memory or time"
    )]
    Value {
        /// The path, without predicates.
        path: String,
        value: String,
        limit: u64,
    },
    /// The name of a disk.
    #[error(
        "/domain/devices/disk/target/@dev is {name:?}, and the number in it may be from 0 to {MAX_DISK_NUMBER}: \
         libvirt would run out of memory or time"
    )]
    DiskName { name: String },
    /// The number of elements of one name, or of all children of one parent.
    #[error(
        "there are {count} {what}, and may be {limit}: libvirt would run out of memory or time"
    )]
    Count {
        what: &'static str,
        count: usize,
        limit: usize,
    },
}

/// The numbers of a domain that are above their limits. A spent budget ends the search; the caller then discards the
/// result.
pub(super) fn excesses<'a>(
    domain: &'a Element,
    budget: &'a Budget<'_>,
) -> impl Iterator<Item = Excess> + 'a {
    let check = LimitCheck { budget };
    let children = domain.children().take_while(|_| budget.spend(1));
    children.flat_map(move |child| check.child_of_domain(child))
}

#[derive(Clone, Copy)]
struct LimitCheck<'a, 'b> {
    budget: &'a Budget<'b>,
}

/// The excesses in one part of a domain.
type Excesses<'a> = Box<dyn Iterator<Item = Excess> + 'a>;

impl<'a> LimitCheck<'a, '_> {
    fn child_of_domain(self, child: &'a Element) -> Excesses<'a> {
        match local(child.tag_name()) {
            "vcpu" => self.text("/domain/vcpu", child, MAX_VCPUS),
            "iothreads" => self.text("/domain/iothreads", child, MAX_IOTHREADS),
            "iothreadids" => {
                let ids = self.children_named(child, "iothread").count();
                Box::new(within("IO thread IDs", ids, MAX_IOTHREAD_IDS).into_iter())
            }
            "cpu" => {
                let numa = self.children_named(child, "numa");
                let cells = numa.flat_map(move |numa| self.children_named(numa, "cell"));
                Box::new(within("NUMA cells", cells.count(), MAX_NUMA_CELLS).into_iter())
            }
            "cputune" => self.cache_and_node_ids(child),
            "devices" => self.devices(child),
            _ => Box::new(std::iter::empty()),
        }
    }

    fn children(self, element: &'a Element) -> impl Iterator<Item = &'a Element> {
        element.children().take_while(move |_| self.budget.spend(1))
    }

    fn children_named(
        self,
        element: &'a Element,
        name: &'static str,
    ) -> impl Iterator<Item = &'a Element> {
        let children = self.children(element);
        children.filter(move |child| local(child.tag_name()) == name)
    }

    fn devices(self, devices: &'a Element) -> Excesses<'a> {
        let of_each = self.children(devices).flat_map(move |device| {
            let name = local(device.tag_name());
            let index: Excesses<'a> = match name {
                "controller" => {
                    let path = || "/domain/devices/controller".to_owned();
                    self.attribute(path, device, "index", MAX_CONTROLLER_INDEX)
                }
                _ => Box::new(std::iter::empty()),
            };
            let children = self.children(device);
            let of_children = children.flat_map(move |child| -> Excesses<'a> {
                match (name, local(child.tag_name())) {
                    (_, "address") => {
                        let path = move || format!("/domain/devices/{name}/address");
                        self.attribute(path, child, "controller", MAX_CONTROLLER_INDEX)
                    }
                    ("disk", "target") => self.disk_name(child),
                    _ => Box::new(std::iter::empty()),
                }
            });
            index.chain(of_children)
        });
        let counts = [
            within(
                "controllers",
                self.children_named(devices, "controller").count(),
                MAX_CONTROLLERS,
            ),
            within("devices", self.children(devices).count(), MAX_DEVICES),
        ];
        Box::new(of_each.chain(counts.into_iter().flatten()))
    }

    /// Checks the caches and NUMA nodes of the host whose bandwidth is limited.
    fn cache_and_node_ids(self, cputune: &'a Element) -> Excesses<'a> {
        Box::new(self.children(cputune).flat_map(move |tune| {
            let name = local(tune.tag_name());
            let of_host = match name {
                "cachetune" => Some("cache"),
                "memorytune" => Some("node"),
                _ => None,
            };
            of_host.into_iter().flat_map(move |of_host| {
                let children = self.children_named(tune, of_host);
                children.flat_map(move |child| {
                    let path = move || format!("/domain/cputune/{name}/{of_host}");
                    self.attribute(path, child, "id", MAX_HOST_ID)
                })
            })
        }))
    }

    /// Checks the number in the name of a disk. libvirt reads letters as digits, after a prefix that it knows.
    fn disk_name(self, target: &'a Element) -> Excesses<'a> {
        let is_above = |name: &String| disk_number(name).is_some_and(|n| n > MAX_DISK_NUMBER);
        let names = self.values(target, "dev").filter(is_above);
        Box::new(names.map(|name| Excess::DiskName { name }))
    }

    /// Checks the text of an element. libvirt joins the texts of all its descendants, so that an element with children
    /// is no number.
    fn text(self, path: &'static str, element: &Element, limit: u64) -> Excesses<'a> {
        let text = element.text();
        let is_within = element.children().next().is_none() && is_number_within(&text, limit);
        let excess = (!is_within).then(|| Excess::Value {
            path: path.to_owned(),
            value: text,
            limit,
        });
        Box::new(excess.into_iter())
    }

    fn attribute(
        self,
        path: impl Fn() -> String + 'a,
        element: &'a Element,
        name: &'static str,
        limit: u64,
    ) -> Excesses<'a> {
        let values = self.values(element, name);
        let above = values.filter(move |value| !is_number_within(value, limit));
        Box::new(above.map(move |value| Excess::Value {
            path: format!("{}/@{name}", path()),
            value,
            limit,
        }))
    }

    /// The values of an attribute, with any prefix, since libvirt ignores the prefix; none if the budget is spent.
    fn values(self, element: &'a Element, name: &'static str) -> impl Iterator<Item = String> + 'a {
        let is_left = self.budget.spend_text(tag_bytes(element));
        let attributes = is_left.then(|| element.attrs()).into_iter().flatten();
        let named = attributes.filter(move |(other, _)| local(other) == name);
        named.map(|(_, value)| value.into_owned())
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
mod tests {
    use domain_xml::Document;

    use super::*;

    fn excess(inside: &str) -> Option<String> {
        let domain = Document::parse(&format!("<domain>{inside}</domain>")).unwrap();
        let budget = Budget::unlimited();
        let first = excesses(domain.root(), &budget).next();
        first.map(|excess| excess.to_string())
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
        let ids = |count| {
            let ids = "<iothread id='1'/>".repeat(count);
            excess(&format!("<iothreadids>{ids}</iothreadids>"))
        };
        assert_eq!(ids(1024), None);
        assert_eq!(devices("input", 4096), None);
        assert_eq!(devices("controller", 1024), None);
        assert_eq!(cells(1024), None);
        for (message, limit) in [
            (devices("input", 4097), "4096"),
            (devices("controller", 1025), "1024"),
            (cells(1025), "1024"),
            (ids(1025), "1024"),
        ] {
            assert!(message.unwrap().contains(limit));
        }
    }
}
