//! The documentation is run.
//!
//! Each page is one story in a directory of its own, where the modules of `examples-hooks` lie (`smbios.wasm` and
//! so on) and `records` of one; an example's page is told in a copy of it, or in the workspace. Of its fenced blocks
//!
//! | block | |
//! |---|---|
//! | `sh` | is run where it stands, and must succeed |
//! | `sh fails` | is run, and must not succeed |
//! | `text output`, `rust output` | is what the block before printed; `...` stands for anything, alone on a line for any lines |
//! | `sh cluster`, `sh install`, `sh gate` | is not run: it is counted in [`NOT_RUN`] and held against what there is |
//! | `text usage` | names verbs and flags that there are |
//! | `yaml NAME`, `toml NAME`, `python NAME`, ... | is written to the file NAME, for the blocks that follow |
//! | `rust PATH` | stands so in that file of the workspace; without PATH it is one of the SDK's own examples |
//! | `dockerfile` | is built into a directory, and what it starts is started there |
//! | `yaml`, `json` | must be such; Kubernetes' objects have the fields that they may have, sidecars in annotations are started |
//!
//! Every link to another file must lead somewhere, and `xml after` must be as libvirt's schema wants it. That it is
//! what the example's module makes of `xml before`, `tests/examples.rs` and `tests/languages.rs` see to.
#![allow(clippy::unwrap_used)]

mod commands;
mod image;
mod links;
mod manifest;
mod not_run;
mod output;
mod page;
mod records;
mod schema;
mod signatures;
mod story;

use page::{page, pages};

/// Blocks that are not run, by page and role. `gate` is what the whole test run itself does; `install` changes
/// the machine; `cluster` needs one.
const NOT_RUN: &[(&str, &str, usize)] = &[
    ("CONTRIBUTING.md", "gate", 1),
    ("README.md", "gate", 1),
    ("docs/c.md", "install", 2),
    ("docs/guide.md", "cluster", 5),
    ("docs/guide.md", "install", 1),
    ("docs/python.md", "install", 1),
    ("docs/serve.md", "cluster", 1),
    ("examples-hooks/cloud-init/README.md", "gate", 1),
    ("examples-hooks/disk-tuning/README.md", "gate", 1),
    ("examples-hooks/farewell/README.md", "gate", 1),
    ("examples-hooks/gpu-friendly/README.md", "gate", 1),
    ("examples-hooks/qemu-args/README.md", "gate", 1),
    ("examples-hooks/smbios/README.md", "gate", 1),
    ("examples-hooks/smbios/README.md", "install", 1),
    ("examples-hooks/team-label/README.md", "gate", 1),
    ("examples-hooks/vhost-user/README.md", "gate", 1),
];

macro_rules! told {
    ($($test:ident: $page:literal),+ $(,)?) => {
        /// Pages that run something. A test each, so that several run at a time.
        const TOLD: &[&str] = &[$($page),+];
        $(#[test]
        fn $test() {
            story::tell($page);
        })+
    };
}

told! {
    the_readme_is_so: "README.md",
    the_guide_is_so: "docs/guide.md",
    the_page_on_c_is_so: "docs/c.md",
    the_page_on_python_is_so: "docs/python.md",
    the_page_on_the_tool_is_so: "docs/virt-hook.md",
    the_page_on_serve_is_so: "docs/serve.md",
    the_page_on_policies_is_so: "docs/policy.md",
    the_page_on_ports_is_so: "docs/from-a-sidecar.md",
    the_c_example_is_so: "examples-hooks/c-genid/README.md",
    the_python_example_is_so: "examples-hooks/python-interfaces/README.md",
    the_cloud_init_example_is_so: "examples-hooks/cloud-init/README.md",
    the_disk_tuning_example_is_so: "examples-hooks/disk-tuning/README.md",
    the_farewell_example_is_so: "examples-hooks/farewell/README.md",
    the_gpu_example_is_so: "examples-hooks/gpu-friendly/README.md",
    the_qemu_example_is_so: "examples-hooks/qemu-args/README.md",
    the_smbios_example_is_so: "examples-hooks/smbios/README.md",
    the_team_label_example_is_so: "examples-hooks/team-label/README.md",
    the_vhost_user_example_is_so: "examples-hooks/vhost-user/README.md",
}

#[test]
fn every_page_that_runs_something_is_told() {
    for path in pages() {
        let runs = page(&path).blocks.iter().any(page::Block::is_run);
        assert_eq!(runs, TOLD.contains(&&*path), "{path}");
    }
}

/// What is left out of the run stands in this file.
#[test]
fn what_is_not_run_is_known() {
    let mut found = Vec::new();
    for path in pages() {
        for role in not_run::ROLES {
            let blocks = page(&path).blocks;
            let count = blocks.iter().filter(|block| block.is("sh", role)).count();
            if count > 0 {
                found.push((path.clone(), role, count));
            }
        }
    }
    let found: Vec<_> = found
        .iter()
        .map(|(path, role, count)| (path.as_str(), *role, *count))
        .collect();
    assert_eq!(found, NOT_RUN);
}

#[test]
fn every_block_is_what_it_says() {
    for path in pages() {
        for block in page(&path).blocks {
            let at = format!("{path}:{}", block.line);
            match (block.language.as_str(), block.role.as_str()) {
                ("sh", role) => {
                    commands::is_shell(&block.text).unwrap_or_else(|error| panic!("{at}: {error}"));
                    let known = ["", "fails"].contains(&role) || not_run::ROLES.contains(&role);
                    assert!(known, "{at}: what is `sh {role}`?");
                }
                ("yaml", _) => manifest::is_known(&path, &block)
                    .unwrap_or_else(|error| panic!("{at}: {error}")),
                ("json", _) => {
                    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
                    parsed.unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                (_, "output") => {}
                // The SDK's own documentation, whose examples are compiled and run with it.
                ("rust", "") => assert_eq!(path, "hooks-sdk/README.md", "{at}"),
                ("rust", file) => {
                    assert!(
                        page::source(file).contains(&block.text),
                        "{at}: {file} is another"
                    );
                }
                _ => {}
            }
        }
    }
}

#[test]
fn domains_are_as_libvirts_schema_wants_them() {
    schema::all_are_valid();
}

#[test]
fn every_verb_and_flag_is_there() {
    let mut looked_at = 0;
    for path in pages() {
        let page = page(&path);
        for block in &page.blocks {
            if block.language == "sh" || block.is("text", "usage") {
                let at = format!("{path}:{}", block.line);
                looked_at += commands::verbs_and_flags_are_there(&at, &block.text);
            }
        }
        for code in page.code() {
            looked_at += commands::verbs_and_flags_are_there(&path, code);
        }
    }
    assert!(looked_at > 20, "the pages show {looked_at} commands");
}

/// The examples of `--help` are documentation, too.
#[test]
fn what_help_shows_is_there() {
    let looked_at: usize = commands::VERBS
        .iter()
        .map(|verb| commands::help_is_so(verb))
        .sum();
    assert!(looked_at > 20, "help shows {looked_at} commands");
}

#[test]
fn every_hook_points_signature_is_declared() {
    assert_eq!(signatures::are_declared(), 12);
}

#[test]
fn every_link_leads_somewhere() {
    pages().iter().for_each(|path| links::lead_somewhere(path));
}

#[test]
fn every_page_is_in_the_index() {
    links::all_are_in("docs/README.md", "docs/");
}
