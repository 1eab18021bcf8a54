//! The pod's DNS configuration (`resolv.conf`), which the guest also gets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum size of `resolv.conf` in bytes. Kubernetes limits the search domains to 2 KiB.
pub const MAX_RESOLV_CONF_BYTES: usize = 64 * 1024;

/// The name server and the search domain for a file without them, as in KubeVirt.
const DEFAULT_SERVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
const DEFAULT_SEARCH: &str = "cluster.local";
/// The maximum number of servers per IP version, which is more than any resolver uses.
const MAX_SERVERS: usize = 16;
/// The part that every search domain for services contains.
const SERVICE_DOMAIN_INFIX: &str = ".svc.";
/// Limits of RFC 1035.
const MAX_DOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// DNS configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// Servers with IPv4 addresses.
    pub v4: Vec<Ipv4Addr>,
    /// Servers with IPv6 addresses.
    pub v6: Vec<Ipv6Addr>,
    /// Search domains, in lower case, without a dot at the end.
    pub search: Vec<String>,
}

impl DnsConfig {
    /// Parses a `resolv.conf`. Invalid addresses and domain names are ignored, because a guest should get a lease even
    /// without them.
    pub fn parse(resolv_conf: &str) -> DnsConfig {
        let mut dns = DnsConfig::default();
        for line in resolv_conf.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => match words.next().map(str::parse) {
                    Some(Ok(IpAddr::V4(server))) => dns.v4.push(server),
                    Some(Ok(IpAddr::V6(server))) => match server.to_ipv4_mapped() {
                        Some(server) => dns.v4.push(server),
                        None => dns.v6.push(server),
                    },
                    _ => {}
                },
                Some("search") => dns.search.extend(words.filter_map(normalize_domain)),
                _ => {}
            }
        }
        dns.v4.truncate(MAX_SERVERS);
        dns.v6.truncate(MAX_SERVERS);
        if dns.v4.is_empty() && dns.v6.is_empty() {
            dns.v4.push(DEFAULT_SERVER);
        }
        if dns.search.is_empty() {
            dns.search.push(DEFAULT_SEARCH.into());
        }
        dns
    }

    /// Adds a search domain with the guest's subdomain as the first one, because the pod's search domains do not
    /// include the subdomain.
    pub fn with_subdomain(mut self, subdomain: &str) -> DnsConfig {
        let services = self
            .search
            .iter()
            .filter(|domain| domain.contains(SERVICE_DOMAIN_INFIX));
        let Some(service) = longest(services) else {
            return self;
        };
        if !subdomain.is_empty() && !service.starts_with(&format!("{subdomain}.")) {
            let guest_domain = format!("{subdomain}.{service}");
            self.search.splice(..0, normalize_domain(&guest_domain));
        }
        self
    }

    /// The guest's domain: the longest of the search domains.
    pub fn domain_name(&self) -> Option<&str> {
        longest(self.search.iter())
    }
}

/// The longest domain; the first one if several are equally long.
fn longest<'a>(domains: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    domains.map(String::as_str).reduce(|best, domain| {
        if domain.len() > best.len() {
            domain
        } else {
            best
        }
    })
}

/// Normalises a domain name; `None` if it is invalid.
fn normalize_domain(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_valid = text.len() <= MAX_DOMAIN && text.split('.').all(is_label);
    is_valid.then_some(text)
}

fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_entries_are_ignored() {
        let dns = DnsConfig::parse(
            "# by the kubelet\nsearch default.svc.cluster.local svc.Cluster.local cluster.local. . -x a..b\n\
             nameserver 10.96.0.10\nnameserver fd00::10\nnameserver ::ffff:10.0.0.1\nnameserver nobody\n\
             nameserver\noptions ndots:5\nnameservers 1.1.1.1\n",
        );
        assert_eq!(dns.v4, [[10, 96, 0, 10], [10, 0, 0, 1]].map(Ipv4Addr::from));
        assert_eq!(dns.v6, ["fd00::10".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(
            dns.search,
            [
                "default.svc.cluster.local",
                "svc.cluster.local",
                "cluster.local"
            ]
        );
        assert_eq!(dns.domain_name(), Some("default.svc.cluster.local"));
    }

    #[test]
    fn empty_file_gives_kubevirts_defaults() {
        let dns = DnsConfig::parse("");
        assert_eq!(dns.v4, [DEFAULT_SERVER]);
        assert_eq!(dns.search, ["cluster.local"]);
        assert_eq!(dns.clone().with_subdomain("sub"), dns);
        assert!(DnsConfig::parse("nameserver fd00::1").v4.is_empty());
    }

    #[test]
    fn subdomain_is_added_once_as_the_first_search_domain() {
        let search = |subdomain: &str| {
            let dns = DnsConfig::parse(
                "search ns.svc.cluster.local sub2.ns.svc.cluster.local cluster.local",
            );
            dns.with_subdomain(subdomain).search
        };
        assert_eq!(search("sub")[0], "sub.sub2.ns.svc.cluster.local");
        assert_eq!(search("sub2")[0], "ns.svc.cluster.local");
        assert_eq!(search("")[0], "ns.svc.cluster.local");
        assert_eq!(search(&"s".repeat(64))[0], "ns.svc.cluster.local");
    }
}
