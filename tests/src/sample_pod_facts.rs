//! Facts about a pod that hooks of the tests in several languages read: its network status, and what the hooks report.

/// The network status annotation, as Multus writes it, of a pod with two attachments of one network.
pub const NETWORK_STATUS: &str = r#"[
    {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.7"], "default": true},
    {"name": "infra/lab", "ips": ["192.0.2.10", "2001:db8::10"], "mac": "02:00:00:00:00:01"},
    {"name": "infra/lab", "mac": "02:00:00:00:00:02"}]"#;

/// The text in which the tests' hooks report the facts of that pod, if its annotation `a.example/b` is `one`.
pub const POD_FACTS: &str = "one 02:00:00:00:00:01 02:00:00:00:00:02 2001:db8::10 cbr0";
