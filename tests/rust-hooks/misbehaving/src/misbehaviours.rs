//! The misbehaviours: errors, panics, endless loops, exhausted memory, floods of output, and access without a grant.

use std::fmt::Write as _;

use crate::bindings::exports::virt_hook::hooks::handler::Error;
use crate::bindings::virt_hook::hooks::host::{Level, config, log};
use crate::first_word;

/// Carries out the misbehaviour that the first word of the VMI selects, if it is one for every hook point.
pub(crate) fn misbehave(vmi: &str) -> Result<(), Error> {
    match first_word(vmi) {
        "veto" => return Err(Error::Veto("not on a Friday".to_owned())),
        "fail" => return Err(Error::Failed("the annotation is not a number".to_owned())),
        "panic" => panic!("a wheel came off"),
        "exit" => std::process::exit(3),
        "loop" => loop_forever(),
        "sleep" => std::thread::sleep(std::time::Duration::from_secs(3600)),
        "recurse" => {
            std::hint::black_box(recurse(u64::MAX));
        }
        "memory" => allocate_forever(),
        "flood" => flood_log(),
        "log" => log_on_all_streams(),
        "reach-out" => try_ungranted_access()?,
        "connect" => try_to_connect()?,
        _ => {}
    }
    Ok(())
}

pub(crate) fn loop_forever() -> ! {
    loop {
        std::hint::black_box(0);
    }
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    recurse(depth - 1) + here[(depth % 64) as usize]
}

fn allocate_forever() {
    let mut all = Vec::new();
    loop {
        all.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&all);
    }
}

fn flood_log() {
    let line = "again and again and again ".repeat(40);
    for _ in 0..2000 {
        log(Level::Info, &line);
        println!("{line}");
        eprint!("{line}");
    }
}

fn log_on_all_streams() {
    log(Level::Warn, "through the host");
    println!("through standard output");
    eprintln!("through standard error");
}

/// Tries every access that is not granted, and fails with a list of those that succeed.
fn try_ungranted_access() -> Result<(), Error> {
    let mut granted_accesses = String::new();
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
            let _ = write!(granted_accesses, "{what} ");
        }
    }
    if granted_accesses.is_empty() {
        Ok(())
    } else {
        Err(Error::Failed(format!("granted: {granted_accesses}")))
    }
}

fn try_to_connect() -> Result<(), Error> {
    let peer = "127.0.0.1:22";
    let connected = std::net::TcpStream::connect(peer);
    connected
        .map(drop)
        .map_err(|error| Error::Failed(format!("{peer}: {error}")))
}
