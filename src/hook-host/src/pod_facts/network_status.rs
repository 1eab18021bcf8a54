//! Multus' annotation `k8s.v1.cni.cncf.io/network-status`: a JSON list with an entry per network of the pod. See
//! <https://github.com/k8snetworkplumbingwg/multi-net-spec>.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The key of the annotation.
pub(super) const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";
/// Maximum number of networks of a pod, far more than a node can attach.
const MAX_NETWORKS: usize = 1024;

/// A network of the pod. Members of the entry that are not known here are only in `json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) name: String,
    pub(crate) pod_interface: String,
    pub(crate) ips: Vec<String>,
    pub(crate) mac: String,
    pub(crate) is_default: bool,
    /// The complete entry.
    pub(crate) json: String,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    interface: Option<String>,
    #[serde(default)]
    ips: Option<Vec<String>>,
    #[serde(default)]
    mac: Option<String>,
    #[serde(default)]
    default: Option<bool>,
}

/// Parses the annotation. The error names the entry.
pub(crate) fn parse(text: &str) -> Result<Vec<Network>, String> {
    let entries: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| format!("it is not a JSON list: {error}"))?;
    if entries.len() > MAX_NETWORKS {
        return Err(format!(
            "it has {} entries, more than {MAX_NETWORKS}",
            entries.len()
        ));
    }
    let numbered = entries.into_iter().enumerate();
    let parsed = numbered.map(|(index, raw)| {
        network(raw.get()).map_err(|error| format!("its entry {index}: {error}"))
    });
    parsed.collect()
}

fn network(json: &str) -> Result<Network, String> {
    // serde_json only scans a raw value and does not limit its depth. Hooks parse the entry, so it must be valid here.
    let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if !value.is_object() {
        return Err("it is not an object".to_owned());
    }
    let entry = Entry::deserialize(&value).map_err(|error| error.to_string())?;
    Ok(Network {
        name: entry.name,
        pod_interface: entry.interface.unwrap_or_default(),
        ips: entry.ips.unwrap_or_default(),
        mac: entry.mac.unwrap_or_default(),
        is_default: entry.default.unwrap_or_default(),
        json: value.to_string(),
    })
}

/// The JSON list of these entries, each as it is in the annotation.
pub(crate) fn to_json(networks: &[Network]) -> String {
    let entries: Vec<&str> = networks
        .iter()
        .map(|network| network.json.as_str())
        .collect();
    format!("[{}]", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Multus 4 writes it.
    const STATUS: &str = r#"[{
        "name": "k8s-pod-network", "interface": "eth0", "ips": ["10.244.1.7", "fd00::7"],
        "mac": "0a:58:0a:f4:01:07", "default": true, "dns": {}
    },{
        "name": "infra/lab", "interface": "pod16477688c0e", "ips": ["192.0.2.10"], "mac": "02:00:00:00:00:01",
        "mtu": 9000, "dns": {"nameservers": ["192.0.2.1"]}, "gateway": ["192.0.2.1"],
        "device-info": {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:00.2"}}
    },{"name": "infra/bare", "dns": null}]"#;

    #[test]
    fn entries_are_parsed_and_kept_completely() {
        let networks = parse(STATUS).unwrap();
        let names: Vec<_> = networks
            .iter()
            .map(|network| network.name.as_str())
            .collect();
        assert_eq!(names, ["k8s-pod-network", "infra/lab", "infra/bare"]);
        assert!(networks[0].is_default && !networks[1].is_default);
        assert_eq!(networks[0].ips, ["10.244.1.7", "fd00::7"]);
        assert_eq!(networks[1].pod_interface, "pod16477688c0e");
        assert_eq!(networks[1].mac, "02:00:00:00:00:01");
        let json: Value = serde_json::from_str(&networks[1].json).unwrap();
        assert_eq!(json["device-info"]["pci"]["pci-address"], "0000:65:00.2");
        assert_eq!(networks[2].ips, [""; 0]);
        assert_eq!(parse(&to_json(&networks)).unwrap(), networks);
        assert_eq!(parse("[]").unwrap(), []);
    }

    #[test]
    fn other_json_is_invalid() {
        let deep = format!("[{}{}]", "[".repeat(500_000), "]".repeat(500_000));
        let deep_member = format!(
            r#"[{{"name": "a", "x": {}{}}}]"#,
            "[".repeat(500_000),
            "]".repeat(500_000)
        );
        let many = format!("[{}]", vec!["0"; 2000].join(","));
        for (text, part) in [
            ("", "not a JSON list"),
            ("{}", "not a JSON list"),
            ("not JSON", "not a JSON list"),
            (&deep, "recursion limit"),
            (&deep_member, "recursion limit"),
            (&many, "2000 entries"),
            ("[0]", "its entry 0: it is not an object"),
            ("[[\"a\"]]", "its entry 0: it is not an object"),
            (r#"[{"interface": "eth0"}]"#, "missing field `name`"),
            (r#"[{"name": "a", "ips": "192.0.2.1"}]"#, "its entry 0"),
            (r#"[{"name": "a"}, {"name": 7}]"#, "its entry 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
