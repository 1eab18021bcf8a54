//! A hook that misbehaves on demand: the first word of the VMI selects the misbehaviour, so that one module serves
//! all tests with hostile guests.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(target_family = "wasm"), allow(dead_code))]

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bindings::exports::virt_hook::hooks::handler::{Document, Error, Guest};
use bindings::virt_hook::hooks::host::{Level, config, invocation, log};

// Generated: the canonical ABI is made of raw pointers. Straight from the contract, not through the
// SDK, so that the host is tested against what other languages will bring.
#[allow(unsafe_code, unused_qualifications, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../hooks-sdk/wit/v0.1", world: "hook" });

    // Native linkers refuse symbol names with a colon.
    #[cfg(target_family = "wasm")]
    use super::Odd;
    #[cfg(target_family = "wasm")]
    export!(Odd with_types_in self);
}

struct Odd;

const DESCRIPTION: &str = r#"{"name": "odd", "version": "1.2.3", "future": [1, {}], "hookPoints": [
    {"name": "PreStart", "priority": 5}, {"name": "PreCloudInitIso"},
    {"name": "OnDefineDomain", "priority": -1}, {"name": "Shutdown"}],
    "wishes": {"paths": ["/domain/**"                                        ],
    "config": ["manufacturer"], "dirs": [                                        ]}}"#;

/// What a test writes over the text above for a description that differs each time, one that never
/// comes, and one that takes forever.
const FICKLE: &str = "[2, {}]";
const CRASHES: &str = "[3, {}]";
const SPINS: &str = "[4, {}]";

/// The annotation of a VMI in JSON whose value is a misbehaviour that waits for a domain which arrives by a migration.
const ON_ARRIVAL: &str = "\"misbehaving.example.com/on-arrival\":\"";

/// The annotation of a VMI in JSON whose domain gets the name of its node.
const WRITES_NODE: &str = "\"misbehaving.example.com/writes-node\"";

/// The annotation of a VMI in JSON whose domain is described by the reason of the call.
const WRITES_REASON: &str = "\"misbehaving.example.com/writes-reason\"";

/// The annotation of a VMI in JSON that is refused at PreStart on a migration's target.
const REFUSES_MIGRATION: &str = "\"misbehaving.example.com/refuses-migration\"";

/// Calls that this instance has answered.
static CALLS: AtomicU32 = AtomicU32::new(0);

impl Guest for Odd {
    fn describe() -> String {
        let description = std::hint::black_box(DESCRIPTION);
        if description.contains(FICKLE) {
            return description.replace(FICKLE, &random().to_string());
        }
        match description {
            crashes if crashes.contains(CRASHES) => panic!("a wheel came off"),
            spins if spins.contains(SPINS) => spin(),
            _ => {}
        }
        description.to_owned()
    }

    fn pre_start(vmi: String) -> Result<(), Error> {
        let arrives = || invocation("reason").as_deref() == Some("migration-target");
        if vmi.contains(REFUSES_MIGRATION) && arrives() {
            return Err(Error::Veto("no visitors".to_owned()));
        }
        act(&vmi).map(drop)
    }

    fn pre_cloud_init_iso(
        vmi: String,
        data_source: String,
        mut documents: Vec<Document>,
    ) -> Result<Vec<Document>, Error> {
        act(&vmi)?;
        match word(&vmi) {
            "drop-document" => documents.truncate(1),
            "multiply" => documents = multiplied(),
            _ => documents[0].1.push_str(&format!("# {data_source}\n")),
        }
        Ok(documents)
    }

    fn on_define_domain(vmi: String, xml: String) -> Result<String, Error> {
        // Only libvirt knows PCI addresses: this domain arrives by a migration.
        if let Some((_, rest)) = vmi.split_once(ON_ARRIVAL)
            && xml.contains("<address type='pci'")
        {
            act(rest.split('"').next().unwrap_or_default())?;
        }
        act(&vmi)?;
        Ok(match word(&vmi) {
            "malformed" => xml.replace("</domain>", ""),
            "empty" => String::new(),
            "other-root" => "<network><name>ns_vm</name></network>".to_owned(),
            "rename" => xml.replace("<name>ns_vm</name>", "<name>other</name>"),
            "huge" => "x".repeat(9 << 20),
            "keep" => xml,
            "replace" => replaced(&vmi, &xml),
            "read" => described(&xml, &read(&vmi)?),
            "config" => described(&xml, &config("manufacturer").unwrap_or_default()),
            "random" => described(&xml, &format!("{} {}", random(), seconds())),
            "facts" => described(&xml, &facts()),
            "count" => described(&xml, &(CALLS.fetch_add(1, Relaxed) + 1).to_string()),
            "entity-bomb" => format!("{}{xml}", bomb()),
            "deep" => deep(&xml),
            // `virt-hook` takes no VMI that is not JSON.
            _ if vmi.contains(WRITES_NODE) => with_node(&vmi, &xml),
            _ if vmi.contains("\"crowd\"") => crowd(&xml),
            _ if vmi.contains(WRITES_REASON) => {
                described(&xml, &invocation("reason").unwrap_or_default())
            }
            _ => xml.replace("</domain>", "<title>odd</title></domain>"),
        })
    }

    fn shutdown() -> Result<(), Error> {
        Err(Error::Failed("shutdown is never easy".to_owned()))
    }
}

fn word(vmi: &str) -> &str {
    vmi.split_whitespace().next().unwrap_or_default()
}

fn described(xml: &str, text: &str) -> String {
    xml.replace(
        "</domain>",
        &format!("<description>{text}</description></domain>"),
    )
}

/// The name of the VMI's node as the domain's only `<genid>`.
fn with_node(vmi: &str, xml: &str) -> String {
    let node = vmi.split_once("\"nodeName\":\"").unwrap_or_default().1;
    let node = node.split('"').next().unwrap_or_default();
    let rest = xml.split_once("<genid>").map_or(xml, |(rest, _)| rest);
    let rest = rest.trim_end().trim_end_matches("</domain>");
    format!("{rest}<genid>{node}</genid></domain>")
}

/// 48,000 new elements, 120 levels deep.
fn crowd(xml: &str) -> String {
    let chain = "<x>".repeat(120) + &"</x>".repeat(120);
    xml.replace("</domain>", &(chain.repeat(400) + "</domain>"))
}

/// The second line of the VMI by the third, in the whole domain.
fn replaced(vmi: &str, xml: &str) -> String {
    let mut lines = vmi.lines().skip(1);
    let mut next = || lines.next().unwrap_or_default();
    let (from, to) = (next(), next());
    xml.replace(from, to)
}

/// The file that the VMI's second line names; and nothing else may be had of its directory.
fn read(vmi: &str) -> Result<String, Error> {
    let path = vmi.lines().nth(1).unwrap_or_default();
    for forbidden in [format!("{path}.new"), path.to_owned()] {
        if std::fs::write(&forbidden, "x").is_ok() || std::fs::remove_file(&forbidden).is_ok() {
            return Err(Error::Failed(format!("{forbidden} could be written")));
        }
    }
    std::fs::read_to_string(path).map_err(|error| Error::Failed(format!("{path}: {error}")))
}

fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// What can go wrong at any hook point.
fn act(vmi: &str) -> Result<(), Error> {
    match word(vmi) {
        "veto" => return Err(Error::Veto("not on a Friday".to_owned())),
        "fail" => return Err(Error::Failed("the annotation is not a number".to_owned())),
        "panic" => panic!("a wheel came off"),
        "exit" => std::process::exit(3),
        "loop" => spin(),
        "sleep" => std::thread::sleep(std::time::Duration::from_secs(3600)),
        "recurse" => {
            std::hint::black_box(recurse(u64::MAX));
        }
        "memory" => hoard(),
        "flood" => flood(),
        "log" => chat(),
        "reach-out" => reach_out()?,
        "connect" => connect()?,
        _ => {}
    }
    Ok(())
}

fn spin() -> ! {
    loop {
        std::hint::black_box(0);
    }
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    recurse(depth - 1) + here[(depth % 64) as usize]
}

fn hoard() {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&all);
    }
}

fn flood() {
    let line = "again and again and again ".repeat(40);
    for _ in 0..2000 {
        log(Level::Info, &line);
        println!("{line}");
        eprint!("{line}");
    }
}

fn chat() {
    log(Level::Warn, "through the host");
    println!("through standard output");
    eprintln!("through standard error");
}

/// Everything that is not granted.
fn reach_out() -> Result<(), Error> {
    let mut got = String::new();
    for (what, granted) in [
        (
            "file",
            std::fs::read_dir("/").is_ok() || std::fs::read("/etc/passwd").is_ok(),
        ),
        ("write", std::fs::write("/tmp/odd", "x").is_ok()),
        ("environment", std::env::vars().count() > 0),
        ("arguments", std::env::args().count() > 0),
        (
            "listener",
            std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
        ),
        ("datagram", std::net::UdpSocket::bind("127.0.0.1:0").is_ok()),
        (
            "name",
            std::net::ToSocketAddrs::to_socket_addrs("localhost:1").is_ok(),
        ),
        ("config", config("anything").is_some()),
    ] {
        if granted {
            let _ = write!(got, "{what} ");
        }
    }
    if got.is_empty() {
        Ok(())
    } else {
        Err(Error::Failed(format!("granted: {got}")))
    }
}

fn connect() -> Result<(), Error> {
    let peer = "127.0.0.1:22";
    let connected = std::net::TcpStream::connect(peer);
    connected
        .map(drop)
        .map_err(|error| Error::Failed(format!("{peer}: {error}")))
}

/// XML with a billion laughs (nested entities).
fn bomb() -> String {
    let mut entities = "<!ENTITY l0 'lol'>".to_owned();
    for level in 1..10 {
        let ten = format!("&l{};", level - 1).repeat(10);
        let _ = write!(entities, "<!ENTITY l{level} '{ten}'>");
    }
    format!("<!DOCTYPE domain [{entities}]>")
}

fn deep(xml: &str) -> String {
    let depth = 100_000;
    let nest = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    xml.replace("</domain>", &format!("{nest}</domain>"))
}

fn facts() -> String {
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

/// More than any memory holds on the host's side, if it copies what it is given unlimited.
fn multiplied() -> Vec<Document> {
    let text = "y".repeat(1 << 20);
    (0..30)
        .map(|_| ("user-data".to_owned(), text.clone()))
        .collect()
}
