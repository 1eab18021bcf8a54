//! Runs the commands of the documentation and compares their output with the pages.
//!
//! Each page is one session in its own directory, which contains the modules of `examples-hooks` (`smbios.wasm` and
//! so on) and, if the page mentions it, a sample record in `records`. The page of an example runs in a copy of the
//! example, or in the workspace. Fenced blocks are treated by their info string:
//!
//! | info string | treatment |
//! |---|---|
//! | `sh` | is run, and must succeed |
//! | `sh fails` | is run, and must fail |
//! | `text output`, `rust output` | is the output of the block before; `...` matches anything, or whole lines if alone |
//! | `sh cluster`, `sh install` | is not run, but counted in [`NOT_RUN`] and checked against the sources |
//! | `sh gate`, `sh script` | like `sh cluster` |
//! | `text usage` | names existing verbs and flags |
//! | `yaml NAME`, `toml NAME`, `python NAME`, ... | is written to the file NAME, for the following blocks |
//! | `rust PATH`, `go PATH`, `c PATH`, `python tests/PATH` | is a verbatim part of that file of the workspace |
//! | `rust` | is a doc test of the SDK |
//! | `dockerfile` | is built into a directory, and its entrypoint is started there |
//! | `dockerfile PATH` | is a part of that file of the workspace |
//! | `yaml`, `json` | must parse; Kubernetes objects must have known fields only; sidecars in annotations are started |
//!
//! Commands in the text, and in the comments of `deploy/`, have existing verbs, flags, targets and files
//! (`inline_commands`). Every link to another file must have a target, and `xml after` must be valid by libvirt's
//! schema. `tests/rust_examples.rs`, `tests/c_and_python_hooks` and `tests/go_hooks.rs` check that the example's
//! module turns `xml before` into `xml after`.
#![allow(clippy::unwrap_used)]

mod checks_of_blocks_not_run;
mod dockerfile_image;
mod domain_schema;
mod inline_commands;
mod kubectl_command_checks;
mod make_targets_in_workflows;
mod modules_named_in_docs;
mod names_replaced_by_commands;
mod output_comparison;
mod page_blocks;
mod page_links;
mod page_runner;
mod page_shell_session;
mod policies_that_deny_by_default;
mod sample_hook_record;
mod sdk_signatures;
mod shell_script_splitter;
mod sidecars_on_pages;
mod tests_named_in_threat_model;
mod unpacked_image;
mod virt_hook_commands;
mod yaml_blocks;

use page_blocks::{page, pages};

/// The number of blocks that are not run, by page and role. `gate` blocks run these tests, `install` blocks change the
/// machine, `cluster` blocks need a cluster, `script` blocks are files that another program runs.
const NOT_RUN: &[(&str, &str, usize)] = &[
    ("CONTRIBUTING.md", "gate", 1),
    ("README.md", "gate", 1),
    ("docs/admission.md", "cluster", 3),
    ("docs/c.md", "install", 2),
    ("docs/guide.md", "cluster", 14),
    ("docs/guide.md", "install", 2),
    ("docs/launcher-image.md", "cluster", 3),
    ("docs/libvirt-hosts.md", "install", 1),
    ("docs/libvirt-hosts.md", "script", 1),
    ("docs/monitoring.md", "cluster", 1),
    ("docs/python.md", "install", 1),
    ("docs/serve.md", "cluster", 1),
    ("docs/standalone.md", "cluster", 4),
    ("examples-hooks/cloud-init/README.md", "gate", 1),
    ("examples-hooks/disk-tuning/README.md", "gate", 1),
    ("examples-hooks/gpu-friendly/README.md", "gate", 1),
    ("examples-hooks/gpu-rom/README.md", "gate", 1),
    ("examples-hooks/migration-tuning/README.md", "gate", 1),
    ("examples-hooks/qemu-args/README.md", "gate", 1),
    ("examples-hooks/required-label/README.md", "gate", 1),
    ("examples-hooks/shutdown-audit/README.md", "gate", 1),
    ("examples-hooks/smbios/README.md", "gate", 1),
    ("examples-hooks/smbios/README.md", "install", 1),
    ("examples-hooks/static-addresses/README.md", "gate", 1),
    ("examples-hooks/vhost-user-disk/README.md", "gate", 1),
];

macro_rules! page_tests {
    ($($test:ident: $page:literal),+ $(,)?) => {
        /// The pages with commands. One test per page, so that several run at a time.
        const PAGES_WITH_COMMANDS: &[&str] = &[$($page),+];
        $(#[test]
        fn $test() {
            page_runner::run_page($page);
        })+
    };
}

page_tests! {
    commands_of_the_readme_print_what_it_shows: "README.md",
    commands_of_the_guide_print_what_it_shows: "docs/guide.md",
    commands_of_the_page_on_c_print_what_it_shows: "docs/c.md",
    commands_of_the_page_on_go_print_what_it_shows: "docs/go.md",
    commands_of_the_page_on_python_print_what_it_shows: "docs/python.md",
    commands_of_the_page_on_the_tool_print_what_it_shows: "docs/virt-hook.md",
    commands_of_the_page_on_serve_print_what_it_shows: "docs/serve.md",
    commands_of_the_page_on_policies_print_what_it_shows: "docs/policy.md",
    commands_of_the_page_on_signatures_print_what_it_shows: "docs/signatures.md",
    commands_of_the_page_on_ports_print_what_it_shows: "docs/from-a-sidecar.md",
    commands_of_the_page_on_vdsm_print_what_it_shows: "docs/from-vdsm.md",
    commands_of_the_page_on_libvirts_hooks_print_what_it_shows: "docs/from-libvirt-hooks.md",
    commands_of_the_c_example_print_what_it_shows: "examples-hooks/c-genid/README.md",
    commands_of_the_go_example_print_what_it_shows: "examples-hooks/go-smbios/README.md",
    commands_of_the_python_example_print_what_it_shows: "examples-hooks/python-interface-tuning/README.md",
    commands_of_the_cloud_init_example_print_what_it_shows: "examples-hooks/cloud-init/README.md",
    commands_of_the_disk_tuning_example_print_what_it_shows: "examples-hooks/disk-tuning/README.md",
    commands_of_the_gpu_example_print_what_it_shows: "examples-hooks/gpu-friendly/README.md",
    commands_of_the_gpu_rom_example_print_what_it_shows: "examples-hooks/gpu-rom/README.md",
    commands_of_the_migration_example_print_what_it_shows: "examples-hooks/migration-tuning/README.md",
    commands_of_the_qemu_example_print_what_it_shows: "examples-hooks/qemu-args/README.md",
    commands_of_the_shutdown_audit_example_print_what_it_shows: "examples-hooks/shutdown-audit/README.md",
    commands_of_the_smbios_example_print_what_it_shows: "examples-hooks/smbios/README.md",
    commands_of_the_required_label_example_print_what_it_shows: "examples-hooks/required-label/README.md",
    commands_of_the_static_addresses_example_print_what_it_shows: "examples-hooks/static-addresses/README.md",
    commands_of_the_vhost_user_disk_example_print_what_it_shows: "examples-hooks/vhost-user-disk/README.md",
}

#[test]
fn every_page_with_commands_has_a_test() {
    for path in pages() {
        let runs = page(&path).blocks.iter().any(page_blocks::Block::is_run);
        assert_eq!(runs, PAGES_WITH_COMMANDS.contains(&&*path), "{path}");
    }
}

#[test]
fn commands_of_pages_that_run_nothing_are_checked() {
    let pages = pages();
    let other_pages = pages
        .iter()
        .filter(|path| !PAGES_WITH_COMMANDS.contains(&path.as_str()));
    other_pages.for_each(|path| page_runner::check_commands_of_page(path));
}

#[test]
fn blocks_that_are_not_run_are_listed() {
    let mut found = Vec::new();
    for path in pages() {
        for role in checks_of_blocks_not_run::ROLES {
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
fn every_block_is_valid_in_its_language() {
    for path in pages() {
        for block in page(&path).blocks {
            let location = format!("{path}:{}", block.line);
            match (block.language.as_str(), block.role.as_str()) {
                ("sh", role) => {
                    shell_script_splitter::check_syntax(&block.text)
                        .unwrap_or_else(|error| panic!("{location}: {error}"));
                    let is_known = ["", "fails"].contains(&role)
                        || checks_of_blocks_not_run::ROLES.contains(&role);
                    assert!(is_known, "{location}: unknown role `sh {role}`");
                }
                ("yaml", _) => yaml_blocks::check_block(&path, &block)
                    .unwrap_or_else(|error| panic!("{location}: {error}")),
                ("json", _) => {
                    let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
                    parsed.unwrap_or_else(|error| panic!("{location}: {error}"));
                }
                (_, "output") => {}
                // A doc test of the SDK, which `cargo test` compiles and runs.
                ("rust", "") => assert_eq!(path, "hooks-sdk/README.md", "{location}"),
                // A part of a hook that is in no file.
                ("go" | "c" | "python", "") => {}
                (language, file) if page_blocks::shows_workspace_file(language, file) => {
                    assert!(
                        page_blocks::source(file).contains(&block.text),
                        "{location}: {file} does not contain it"
                    );
                }
                _ => {}
            }
        }
    }
}
