//! A hook that misbehaves on demand: the first word of the VMI selects the misbehaviour, so that one module serves
//! all tests of hostile modules.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(target_family = "wasm"), allow(dead_code))]

mod misbehaviours;
mod returned_domains_and_documents;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bindings::exports::virt_hook::hooks::handler::{Document, Error, Guest};
use bindings::virt_hook::hooks::host::{config, invocation};
use misbehaviours::{loop_forever, misbehave};
use returned_domains_and_documents::{
    entity_bomb, large_documents, with_deep_nesting, with_description, with_many_elements,
    with_node_name, with_replacement,
};

// Generated code: the canonical ABI uses raw pointers. It is generated from the WIT and not taken from the SDK, so that
// the host is tested with bindings like those of other languages.
#[allow(unsafe_code, unused_qualifications, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../hooks-sdk/wit/v0.1", world: "hook" });

    // Native linkers refuse symbol names with a colon.
    #[cfg(target_family = "wasm")]
    use super::MisbehavingHook;
    #[cfg(target_family = "wasm")]
    export!(MisbehavingHook with_types_in self);
}

struct MisbehavingHook;

const DESCRIPTION: &str = r#"{"name": "odd", "version": "1.2.3", "future": [1, {}], "hookPoints": [
    {"name": "PreStart", "priority": 5}, {"name": "PreCloudInitIso"},
    {"name": "OnDefineDomain", "priority": -1}, {"name": "Shutdown"}],
    "wishes": {"paths": ["/domain/**"                                        ],
    "config": ["manufacturer"], "dirs": [                                        ]}}"#;

/// Tests overwrite `[1, {}]` in the module's bytes with one of these: the description then differs at each call,
/// panics, or never returns.
const CHANGING_DESCRIPTION: &str = "[2, {}]";
const PANICKING_DESCRIPTION: &str = "[3, {}]";
const ENDLESS_DESCRIPTION: &str = "[4, {}]";

/// An annotation in the VMI's JSON: its value is a misbehaviour that starts only when the domain arrives by a
/// migration.
const MISBEHAVIOUR_ON_ARRIVAL: &str = "\"misbehaving.example.com/on-arrival\":\"";

/// An annotation in the VMI's JSON: the hook writes the name of the VMI's node into the domain.
const NODE_NAME_REQUESTED: &str = "\"misbehaving.example.com/writes-node\"";

/// An annotation in the VMI's JSON: the hook writes the reason of the call into the domain's description.
const REASON_REQUESTED: &str = "\"misbehaving.example.com/writes-reason\"";

/// An annotation in the VMI's JSON: the hook vetoes PreStart on a migration's target.
const MIGRATION_VETO_REQUESTED: &str = "\"misbehaving.example.com/refuses-migration\"";

/// The number of calls that this instance has answered.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Guest for MisbehavingHook {
    fn describe() -> String {
        let description = std::hint::black_box(DESCRIPTION);
        if description.contains(CHANGING_DESCRIPTION) {
            return description.replace(CHANGING_DESCRIPTION, &random_number().to_string());
        }
        match description {
            description if description.contains(PANICKING_DESCRIPTION) => {
                panic!("a wheel came off")
            }
            description if description.contains(ENDLESS_DESCRIPTION) => loop_forever(),
            _ => {}
        }
        description.to_owned()
    }

    fn pre_start(vmi: String) -> Result<(), Error> {
        let is_migration_target = || invocation("reason").as_deref() == Some("migration-target");
        if vmi.contains(MIGRATION_VETO_REQUESTED) && is_migration_target() {
            return Err(Error::Veto("no visitors".to_owned()));
        }
        misbehave(&vmi).map(drop)
    }

    fn pre_cloud_init_iso(
        vmi: String,
        data_source: String,
        mut documents: Vec<Document>,
    ) -> Result<Vec<Document>, Error> {
        misbehave(&vmi)?;
        match first_word(&vmi) {
            "drop-document" => documents.truncate(1),
            "multiply" => documents = large_documents(),
            _ => documents[0].1.push_str(&format!("# {data_source}\n")),
        }
        Ok(documents)
    }

    fn on_define_domain(vmi: String, xml: String) -> Result<String, Error> {
        // Only libvirt assigns PCI addresses, so a domain that has one arrives by a migration.
        if let Some((_, rest)) = vmi.split_once(MISBEHAVIOUR_ON_ARRIVAL)
            && xml.contains("<address type='pci'")
        {
            misbehave(rest.split('"').next().unwrap_or_default())?;
        }
        misbehave(&vmi)?;
        Ok(match first_word(&vmi) {
            "malformed" => xml.replace("</domain>", ""),
            "empty" => String::new(),
            "other-root" => "<network><name>ns_vm</name></network>".to_owned(),
            "rename" => xml.replace("<name>ns_vm</name>", "<name>other</name>"),
            "huge" => "x".repeat(9 << 20),
            "keep" => xml,
            "replace" => with_replacement(&vmi, &xml),
            "read" => with_description(&xml, &read_unwritable_file(&vmi)?),
            "config" => with_description(&xml, &config("manufacturer").unwrap_or_default()),
            "random" => with_description(&xml, &format!("{} {}", random_number(), unix_seconds())),
            "facts" => with_description(&xml, &invocation_facts()),
            "count" => with_description(&xml, &(CALLS.fetch_add(1, Relaxed) + 1).to_string()),
            "entity-bomb" => format!("{}{xml}", entity_bomb()),
            "deep" => with_deep_nesting(&xml),
            // `virt-hook` takes no VMI that is not JSON.
            _ if vmi.contains(NODE_NAME_REQUESTED) => with_node_name(&vmi, &xml),
            _ if vmi.contains("\"crowd\"") => with_many_elements(&xml),
            _ if vmi.contains(REASON_REQUESTED) => {
                with_description(&xml, &invocation("reason").unwrap_or_default())
            }
            _ => xml.replace("</domain>", "<title>odd</title></domain>"),
        })
    }

    fn shutdown() -> Result<(), Error> {
        Err(Error::Failed("shutdown is never easy".to_owned()))
    }
}

pub(crate) fn first_word(vmi: &str) -> &str {
    vmi.split_whitespace().next().unwrap_or_default()
}

/// The content of the file whose path is the VMI's second line. Fails if the file or its directory can be written.
fn read_unwritable_file(vmi: &str) -> Result<String, Error> {
    let path = vmi.lines().nth(1).unwrap_or_default();
    for forbidden in [format!("{path}.new"), path.to_owned()] {
        if std::fs::write(&forbidden, "x").is_ok() || std::fs::remove_file(&forbidden).is_ok() {
            return Err(Error::Failed(format!("{forbidden} could be written")));
        }
    }
    std::fs::read_to_string(path).map_err(|error| Error::Failed(format!("{path}: {error}")))
}

fn random_number() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn invocation_facts() -> String {
    let keys = [
        "reason",
        "hook-point",
        "hook",
        "namespace",
        "name",
        "uid",
        "domain",
        "host",
        "moon",
    ];
    keys.map(|key| invocation(key).unwrap_or_else(|| "-".to_owned()))
        .join(" ")
}
