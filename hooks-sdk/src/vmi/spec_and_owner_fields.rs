//! Accessors for a VMI's node, machine type, CPU and memory, and for the VirtualMachine that owns it.

use super::{Json, Vmi};

impl Vmi {
    /// The VirtualMachine that this is an instance of, if one owns it.
    pub fn virtual_machine(&self) -> Option<&str> {
        self.text("metadata.ownerReferences[kind=VirtualMachine].name")
    }

    /// The node on which it runs or will run.
    pub fn node_name(&self) -> Option<&str> {
        self.text("status.nodeName")
    }

    /// The CPU architecture, like `amd64`.
    pub fn architecture(&self) -> Option<&str> {
        self.text("spec.architecture")
    }

    /// The machine type, like `q35` or `pc-q35-rhel9.6.0`.
    pub fn machine_type(&self) -> Option<&str> {
        self.text("spec.domain.machine.type")
    }

    /// The memory that the guest sees, as a Kubernetes quantity (`2Gi`).
    pub fn guest_memory(&self) -> Option<&str> {
        self.text("spec.domain.memory.guest")
    }

    /// The memory that the guest sees, in bytes.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"domain":{"memory":{"guest":"2Gi"}}}}"#);
    /// assert_eq!(vmi.guest_memory_bytes(), Some(2 << 30));
    /// ```
    pub fn guest_memory_bytes(&self) -> Option<u64> {
        self.quantity("spec.domain.memory.guest")
    }

    /// The node selector: labels that a node must have.
    pub fn node_selector(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("spec.nodeSelector")
    }

    /// How many vCPUs the guest starts with: sockets, cores and threads, each 1 by default.
    pub fn vcpus(&self) -> u64 {
        let cpu = self.get("spec.domain.cpu");
        let count = |what: &str| {
            let count = cpu.and_then(|cpu| cpu.get(what)).and_then(Json::as_i64);
            count
                .and_then(|count| u64::try_from(count).ok())
                .map_or(1, |count| count.max(1))
        };
        count("sockets")
            .saturating_mul(count("cores"))
            .saturating_mul(count("threads"))
    }
}
