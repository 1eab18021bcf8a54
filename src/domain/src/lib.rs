//! The libvirt domain of a VMI: conversion, documents for libvirt and the guest, and parsing of libvirt's XML.
//! Pure: no file, no process, no libvirt, no runtime.
//!
//! ```text
//! VMI, options, host facts ─ convert ─▶ DomainSpec ─ driver_modes ─ render ─▶ domain XML
//! libvirt's dumpxml ─ parse ─▶ DomainSpec ─▶ Domain JSON ─▶ virt-handler
//! ```

pub mod backup_plan;
pub mod cloud_init;
pub mod convert;
mod disk_backend;
pub mod disk_expansion;
pub mod domain_spec_from_xml;
pub mod domain_spec_to_xml;
pub mod driver_modes;
pub mod guest_agent_access_credentials;
pub mod host_facts;
pub mod host_numa_topology;
pub mod hotplug_ports;
pub mod kubevirt_version;
pub mod libvirt_spec;
mod memory_amount;
pub mod migration;
pub mod pod_network_and_dhcp;
pub mod qemu_limits;
pub mod reconcile;
pub mod required_files;
pub mod resource_claims;
pub mod secret_source;
