//! The recipes in Python, Go and C: each makes of a domain what the recipe in Rust makes of it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use domain_xml::{Document, diff};
use hook_host::MigrationParameters;
use hooks_sdk_testing::Hook;
use serde_json::{Value, json};
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;

use crate::{
    CLOUD_INIT_RECIPES, DISK_LIMIT, DOMAIN_RECIPES, NUMBERS_OF_DEVICES, all_wishes, changed,
    documents, domain, refused_numbers, single_cpu_vmi, single_queue_vmi, unusual_domain, vmi_json,
    vmi_with, with_recipe,
};

/// Runs recipes in Python natively, each twice, and returns their results.
fn run_python(cases: &[Value]) -> Vec<Value> {
    let mut python = Command::new("python3");
    let directory = workspace().join("tests/hooks/python-cookbook");
    let python = python.arg("run_recipes.py").current_dir(directory);
    let mut child = python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(json!(cases).to_string().as_bytes())
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "run_recipes.py failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The pod in which the recipes run.
fn pod() -> Value {
    let (key, value) = DISK_LIMIT;
    json!({"annotations": {key: value}, "networkStatus": hooks::NETWORK_STATUS})
}

/// The wishes of all recipes, for those that are refused or need none.
fn every_wish() -> Vec<&'static str> {
    all_wishes().copied().collect()
}

/// The SDK in Python follows the rules of the SDK in Rust to the byte.
#[test]
fn recipes_in_python_write_what_those_in_rust_write() {
    for xml in [domain(), unusual_domain()] {
        let cases: Vec<Value> = DOMAIN_RECIPES
            .iter()
            .map(|recipe| {
                json!([
                    recipe.name,
                    vmi_json(recipe.name),
                    xml,
                    pod(),
                    recipe.wishes
                ])
            })
            .collect();
        for (recipe, edited) in DOMAIN_RECIPES.iter().zip(run_python(&cases)) {
            let wanted = changed(recipe, &xml);
            assert_eq!(edited.as_str().unwrap(), wanted, "{}", recipe.name);
        }
    }
    let queues = "interface_queues";
    let cases = [single_queue_vmi(queues), single_cpu_vmi(queues)]
        .map(|vmi| json!([queues, vmi, domain(), pod(), []]));
    assert_eq!(run_python(&cases), [domain(), domain()]);
    let given: serde_json::Map<_, _> = documents()
        .into_iter()
        .map(|(name, text)| (name, text.into()))
        .collect();
    let cases: Vec<Value> = CLOUD_INIT_RECIPES
        .iter()
        .map(|recipe| {
            json!([
                recipe.name,
                vmi_json(recipe.name),
                given,
                pod(),
                every_wish()
            ])
        })
        .collect();
    for (recipe, edited) in CLOUD_INIT_RECIPES.iter().zip(run_python(&cases)) {
        for (document, text) in with_recipe(recipe, documents()).into_documents() {
            assert_eq!(edited[&document], text, "{}", recipe.name);
        }
    }
}

#[test]
fn recipes_in_python_refuse_what_those_in_rust_refuse() {
    for numbers in NUMBERS_OF_DEVICES {
        let case = |value: &&str| {
            let vmi = vmi_with(numbers.recipe, numbers.annotation, value);
            json!([numbers.recipe, vmi, domain(), pod(), every_wish()])
        };
        let wrong: Vec<Value> = numbers.wrong.iter().map(case).collect();
        for (value, refused) in numbers.wrong.iter().zip(run_python(&wrong)) {
            let veto = refused["veto"].as_str();
            let veto = veto.unwrap_or_else(|| panic!("{value:?} is not refused"));
            refused_numbers(numbers, veto, value);
        }
        let right: Vec<Value> = numbers.right.iter().map(case).collect();
        let usual = json!([
            numbers.recipe,
            vmi_json(numbers.recipe),
            domain(),
            pod(),
            every_wish()
        ]);
        let usual = &run_python(&[usual])[0];
        for (value, edited) in numbers.right.iter().zip(run_python(&right)) {
            assert_eq!(edited, *usual, "{value}");
        }
    }
}

/// The recipes of a module refuse what those in Rust refuse.
fn refuse_wrong_numbers(module: &Hook) {
    for numbers in NUMBERS_OF_DEVICES {
        let run = |value: &str| {
            let vmi = vmi_with(numbers.recipe, numbers.annotation, value);
            module.on_define_domain(&vmi.to_string(), &domain())
        };
        for value in numbers.wrong {
            refused_numbers(numbers, &run(value).veto(), value);
        }
        let usual = vmi_json(numbers.recipe).to_string();
        let usual = module.on_define_domain(&usual, &domain()).ok().xml;
        for value in numbers.right {
            assert_eq!(run(value).ok().xml, usual, "{value}");
        }
    }
}

/// The recipes of a module, called by the name in an annotation.
fn run_module(module: &Hook, is_byte_identical: bool) {
    let domains = [domain(), unusual_domain()];
    let with_domains = |recipe| domains.iter().map(move |xml| (recipe, xml));
    for (recipe, xml) in DOMAIN_RECIPES.iter().flat_map(with_domains) {
        let vmi = vmi_json(recipe.name).to_string();
        let edited = module.on_define_domain(&vmi, xml).ok().xml;
        let wanted = changed(recipe, xml);
        if is_byte_identical {
            assert_eq!(edited, wanted, "{}", recipe.name);
        }
        let parse = |xml: &str| Document::parse(xml).unwrap();
        let differences = diff(&parse(&wanted), &parse(&edited));
        assert!(differences.is_empty(), "{}: {differences:?}", recipe.name);
        let repeated = module.on_define_domain(&vmi, &edited).ok().xml;
        assert_eq!(repeated, edited, "{}: a second run changes it", recipe.name);
    }
    let queues = "interface_queues";
    for vmi in [single_queue_vmi(queues), single_cpu_vmi(queues)] {
        let run = module.on_define_domain(&vmi.to_string(), &domain());
        assert_eq!(run.ok().xml, domain(), "{vmi}");
    }
}

/// A module of this tree, built, and loaded into the pod of the recipes.
fn load(directory: &str, name: &str) -> Hook {
    let module = hooks::build_with_make(directory, "Makefile", name);
    let module = module.unwrap_or_else(|error| panic!("{error:#}"));
    let hook = Hook::load(module).unwrap_or_else(|error| panic!("{error}"));
    let (key, value) = DISK_LIMIT;
    hook.with_pod_annotation(key, value)
}

fn go() -> &'static Hook {
    static LOADED: OnceLock<Hook> = OnceLock::new();
    LOADED.get_or_init(|| {
        load("tests/hooks/go-cookbook", "cookbook").with_network_status(hooks::NETWORK_STATUS)
    })
}

fn c() -> &'static Hook {
    static LOADED: OnceLock<Hook> = OnceLock::new();
    LOADED.get_or_init(|| load("tests/hooks/c-cookbook", "cookbook"))
}

#[test]
fn recipes_in_go_write_what_those_in_rust_write() {
    run_module(go(), true);
    refuse_wrong_numbers(go());
    for recipe in CLOUD_INIT_RECIPES {
        let wanted = with_recipe(recipe, documents());
        let given = documents();
        let given: Vec<(&str, &str)> = given
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        let vmi = vmi_json(recipe.name).to_string();
        let edited = go().pre_cloud_init_iso(&vmi, "noCloud", &given);
        let edited: Vec<_> = edited.ok().into_iter().collect();
        assert_eq!(edited, sorted(wanted.into_documents()), "{}", recipe.name);
    }
}

fn sorted(mut documents: Vec<(String, String)>) -> Vec<(String, String)> {
    documents.sort();
    documents
}

/// C lays inserted elements out by its own, simpler rules.
#[test]
fn recipes_in_c_change_what_those_in_rust_change() {
    run_module(c(), false);
    refuse_wrong_numbers(c());
}

#[test]
fn a_go_hook_sees_attached_devices() {
    let disk = "<disk type='file'><driver name='qemu'/></disk>";
    let attached = go().on_attach_device("{}", disk).ok();
    assert_eq!(attached.xml, disk.replace("'qemu'", "'qemu' cache='none'"));
    let interface = "<interface type='ethernet'><alias name='ua-blue'/></interface>";
    let refused = go().on_attach_device("{}", interface);
    assert_eq!(refused.veto(), "no blue in Go");
}

/// Both modules limit the bandwidth of a migration that has no limit, and refuse a downtime of 2,000,000 ms.
#[test]
fn hooks_in_go_and_c_tune_and_refuse_migrations() {
    for (hook, veto) in [(go(), "too long in Go"), (c(), "too long in C")] {
        let given = MigrationParameters::default();
        let tuned = hook.pre_migration_source("{}", &given).ok();
        assert_eq!(tuned.bandwidth, 64 << 20, "{veto}");
        assert_eq!(given.differences(&tuned).len(), 1, "{veto}");
        let mut limited = given.clone();
        limited.bandwidth = 1 << 20;
        let tuned = hook.pre_migration_source("{}", &limited).ok();
        assert_eq!(tuned.bandwidth, 1 << 20, "{veto}");
        let mut long = given;
        long.max_downtime = 2_000_000;
        assert_eq!(hook.pre_migration_source("{}", &long).veto(), veto);
    }
}

/// What a line of a recipe's file imports.
fn imports(line: &str) -> Vec<&str> {
    if let Some(names) = line.strip_prefix("from virt_hook import ") {
        return names.split(", ").collect();
    }
    let is_import = line.starts_with("\t\"") && line.ends_with('"')
        || line.starts_with("import \"")
        || line.starts_with("import ") && !line.ends_with('(')
        || line.starts_with("#include <");
    if is_import {
        vec![line.trim()]
    } else {
        Vec::new()
    }
}

#[test]
fn each_page_has_each_recipe_with_its_wishes() {
    for (page, sources, function) in [
        (
            "docs/python-recipes.md",
            &["python-cookbook/devices.py", "python-cookbook/resources.py"][..],
            "def ",
        ),
        (
            "docs/go-recipes.md",
            &["go-cookbook/devices.go", "go-cookbook/resources.go"],
            "func ",
        ),
        (
            "docs/c-recipes.md",
            &["c-cookbook/devices.c", "c-cookbook/resources.c"],
            "bool ",
        ),
    ] {
        let text = fs::read_to_string(workspace().join(page)).unwrap();
        let (introduction, _) = text.split_once("\n## ").unwrap();
        let is_c = page.starts_with("docs/c-");
        for wish in all_wishes().filter(|wish| !is_c || !wish.starts_with("network-status")) {
            assert!(text.contains(&format!("`{wish}`")), "{page}: {wish}");
        }
        let mut found = 0;
        for source in sources {
            let source = workspace().join("tests/hooks").join(source);
            let source = fs::read_to_string(source).unwrap();
            for line in source.lines() {
                for name in imports(line) {
                    assert!(introduction.contains(name), "{page} does not import {name}");
                }
                if line.starts_with(function) {
                    assert!(text.contains(line), "{page} lacks {line}");
                    // Other functions are parts of recipes.
                    found += usize::from(line.contains("domain"));
                }
            }
        }
        assert_eq!(found, DOMAIN_RECIPES.len(), "{page}");
    }
}
