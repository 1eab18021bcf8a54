//! The driver contract on libvirt's test driver, which is part of the client library and needs no daemon and no root.

#![allow(clippy::unwrap_used, reason = "a test")]

mod connection_errors_and_events;
#[path = "../driver_contract/mod.rs"]
mod driver_contract;

use driver_contract::domain_lifecycle::{self, Driver};
use libvirt::code;

const XML: &str = "<domain type='test'>
  <name>default_vm</name>
  <memory unit='KiB'>65536</memory>
  <os><type>hvm</type></os>
</domain>";

#[test]
fn test_driver_keeps_the_domain_contract() {
    let hypervisor = libvirt::connect("test:///default").unwrap();
    let driver = Driver {
        xml: XML.into(),
        starts_paused: false,
        // The test driver has neither ACPI nor an agent, and refuses such requests.
        obeys_shutdown: false,
        state_error_codes: &[
            code::OPERATION_INVALID,
            code::INTERNAL_ERROR,
            code::INVALID_ARG,
        ],
        events: domain_lifecycle::TEST_DRIVER_EVENTS,
    };
    domain_lifecycle::check(&*hypervisor, &driver);
}
