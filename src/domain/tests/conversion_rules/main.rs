//! Tests of KubeVirt's conversion rules that no case of the corpus covers.

#![allow(clippy::unwrap_used)]

mod conversion_errors;
mod cpu_pinning_and_numa;
mod disks;
mod firmware_clock_hyperv;
mod gpus_and_host_devices;
mod launch_security;
mod other_architectures;
mod pci_placement;
mod resource_claims;
mod sriov_passt_binding_plugins;
mod tap_devices_and_dhcp;

use domain::convert::convert;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

/// The inputs of a conversion: fields of the VMI, options and host facts.
#[derive(Default)]
struct Case {
    annotations: Value,
    spec: Value,
    status: Value,
    options: Value,
    host: Value,
}

impl Case {
    /// A case with this `spec`.
    fn of(spec: Value) -> Self {
        Self {
            spec,
            ..Self::default()
        }
    }

    /// A case with this `spec.domain`.
    fn domain(domain: Value) -> Self {
        Self::of(json!({"architecture": "amd64", "domain": domain}))
    }

    fn devices(devices: Value) -> Self {
        Self::domain(json!({"devices": devices}))
    }

    fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations = json!({key: value});
        self
    }

    fn status(self, status: Value) -> Self {
        Self { status, ..self }
    }

    fn options(self, options: Value) -> Self {
        Self { options, ..self }
    }

    fn host(self, host: Value) -> Self {
        Self { host, ..self }
    }

    fn inputs(&self) -> (Vmi, Options, HostFacts) {
        let vmi = json!({
            "metadata": {"name": "vm", "namespace": "ns", "uid": "u", "annotations": self.annotations},
            "spec": self.spec,
            "status": self.status,
        });
        (
            Vmi::from_json(vmi.to_string().as_bytes()).unwrap(),
            serde_json::from_value(or_empty(&self.options)).unwrap(),
            serde_json::from_value(or_empty(&self.host)).unwrap(),
        )
    }

    fn domain_spec(&self) -> DomainSpec {
        let (vmi, options, host) = self.inputs();
        convert(&vmi, &options, &host).unwrap()
    }

    fn conversion_error(&self) -> String {
        let (vmi, options, host) = self.inputs();
        convert(&vmi, &options, &host).unwrap_err().to_string()
    }
}

fn or_empty(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        value => value.clone(),
    }
}

/// Two NUMA nodes of two cores of two threads: 0+4 and 1+5; 2+6 and 3+7.
fn topology() -> Value {
    let cell = |id: u32, cores: [u32; 2]| {
        let cpus = [cores[0], cores[1], cores[0] + 4, cores[1] + 4]
            .map(|cpu| json!({"id": cpu, "siblings": [cpu % 4, cpu % 4 + 4]}));
        json!({"id": id, "cpus": cpus})
    };
    json!({"numa_cells": [cell(0, [0, 1]), cell(1, [2, 3])]})
}
