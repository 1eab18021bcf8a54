//! Tests that the recipes in Python, Go and C have the same results as the recipes in Rust.

use std::sync::OnceLock;

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::MigrationParameters;
use hooks_sdk_testing::Hook;
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::sample_pod_facts::NETWORK_STATUS;

use crate::device_id_notations::{DEVICE_ID_CASES, assert_refusal_of_device_id};
use crate::python_runner::run_python;
use crate::recipe_inputs::{
    DISK_LIMIT, documents, domain, single_cpu_vmi, single_queue_vmi, unusual_domain, vmi_json,
    vmi_with,
};
use crate::recipe_table::{CLOUD_INIT_RECIPES, DOMAIN_RECIPES, all_wishes};
use crate::{cloud_init_edited_by_recipe, edited_by_recipe};

/// The facts about the pod in which the recipes run.
fn pod() -> Value {
    let (key, value) = DISK_LIMIT;
    json!({"annotations": {key: value}, "networkStatus": NETWORK_STATUS})
}

/// The wishes of all recipes, for recipes whose own wishes do not matter.
fn all_recipe_wishes() -> Vec<&'static str> {
    all_wishes().copied().collect()
}

/// The SDK in Python writes the same bytes as the SDK in Rust.
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
            let expected = edited_by_recipe(recipe, &xml);
            assert_eq!(edited.as_str().unwrap(), expected, "{}", recipe.name);
        }
    }
    let queues = "interface_queues";
    let cases = [single_queue_vmi(queues), single_cpu_vmi(queues)]
        .map(|vmi| json!([queues, vmi, domain(), pod(), []]));
    assert_eq!(run_python(&cases), [domain(), domain()]);
    let original: serde_json::Map<_, _> = documents()
        .into_iter()
        .map(|(name, text)| (name, text.into()))
        .collect();
    let cases: Vec<Value> = CLOUD_INIT_RECIPES
        .iter()
        .map(|recipe| {
            json!([
                recipe.name,
                vmi_json(recipe.name),
                original,
                pod(),
                all_recipe_wishes()
            ])
        })
        .collect();
    for (recipe, edited) in CLOUD_INIT_RECIPES.iter().zip(run_python(&cases)) {
        for (document, text) in cloud_init_edited_by_recipe(recipe, documents()).into_documents() {
            assert_eq!(edited[&document], text, "{}", recipe.name);
        }
    }
}

#[test]
fn recipes_in_python_refuse_what_those_in_rust_refuse() {
    for cases in DEVICE_ID_CASES {
        let case = |value: &&str| {
            let vmi = vmi_with(cases.recipe, cases.annotation, value);
            json!([cases.recipe, vmi, domain(), pod(), all_recipe_wishes()])
        };
        let invalid: Vec<Value> = cases.invalid.iter().map(case).collect();
        for (value, refused) in cases.invalid.iter().zip(run_python(&invalid)) {
            let veto = refused["veto"].as_str();
            let veto = veto.unwrap_or_else(|| panic!("{value:?} is not refused"));
            assert_refusal_of_device_id(cases, veto, value);
        }
        let valid: Vec<Value> = cases.valid.iter().map(case).collect();
        let expected = json!([
            cases.recipe,
            vmi_json(cases.recipe),
            domain(),
            pod(),
            all_recipe_wishes()
        ]);
        let expected = &run_python(&[expected])[0];
        for (value, edited) in cases.valid.iter().zip(run_python(&valid)) {
            assert_eq!(edited, *expected, "{value}");
        }
    }
}

/// Checks that the recipes of a module refuse the same device IDs as those in Rust.
fn check_invalid_device_ids(module: &Hook) {
    for cases in DEVICE_ID_CASES {
        let run = |value: &str| {
            let vmi = vmi_with(cases.recipe, cases.annotation, value);
            module.on_define_domain(&vmi.to_string(), &domain())
        };
        for value in cases.invalid {
            assert_refusal_of_device_id(cases, &run(value).veto(), value);
        }
        let expected = vmi_json(cases.recipe).to_string();
        let expected = module.on_define_domain(&expected, &domain()).ok().xml;
        for value in cases.valid {
            assert_eq!(run(value).ok().xml, expected, "{value}");
        }
    }
}

/// Checks the recipes of a module. An annotation names the recipe that the module runs.
fn check_recipes_of_module(module: &Hook, is_byte_identical: bool) {
    let domains = [domain(), unusual_domain()];
    let with_domains = |recipe| domains.iter().map(move |xml| (recipe, xml));
    for (recipe, xml) in DOMAIN_RECIPES.iter().flat_map(with_domains) {
        let vmi = vmi_json(recipe.name).to_string();
        let edited = module.on_define_domain(&vmi, xml).ok().xml;
        let expected = edited_by_recipe(recipe, xml);
        if is_byte_identical {
            assert_eq!(edited, expected, "{}", recipe.name);
        }
        let parse = |xml: &str| Document::parse(xml).unwrap();
        let differences = diff(&parse(&expected), &parse(&edited));
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

/// Builds a module with its Makefile, and loads it with the facts of the recipes' pod.
fn load(directory: &str, name: &str) -> Hook {
    let module = hooks::build_with_make(directory, "Makefile", name);
    let module = module.unwrap_or_else(|error| panic!("{error:#}"));
    let hook = Hook::load(module).unwrap_or_else(|error| panic!("{error}"));
    let (key, value) = DISK_LIMIT;
    hook.with_pod_annotation(key, value)
}

fn go_hook() -> &'static Hook {
    static HOOK: OnceLock<Hook> = OnceLock::new();
    HOOK.get_or_init(|| {
        load("tests/hooks/go-recipes", "recipes").with_network_status(NETWORK_STATUS)
    })
}

fn c_hook() -> &'static Hook {
    static HOOK: OnceLock<Hook> = OnceLock::new();
    HOOK.get_or_init(|| load("tests/hooks/c-recipes", "recipes"))
}

#[test]
fn recipes_in_go_write_what_those_in_rust_write() {
    check_recipes_of_module(go_hook(), true);
    check_invalid_device_ids(go_hook());
    for recipe in CLOUD_INIT_RECIPES {
        let expected = cloud_init_edited_by_recipe(recipe, documents());
        let original = documents();
        let original: Vec<(&str, &str)> = original
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        let vmi = vmi_json(recipe.name).to_string();
        let edited = go_hook().pre_cloud_init_iso(&vmi, "noCloud", &original);
        let edited: Vec<_> = edited.ok().into_iter().collect();
        assert_eq!(edited, sorted(expected.into_documents()), "{}", recipe.name);
    }
}

fn sorted(mut documents: Vec<(String, String)>) -> Vec<(String, String)> {
    documents.sort();
    documents
}

/// The SDK in C indents inserted elements by its own, simpler rules, so the bytes may differ.
#[test]
fn recipes_in_c_change_what_those_in_rust_change() {
    check_recipes_of_module(c_hook(), false);
    check_invalid_device_ids(c_hook());
}

#[test]
fn a_go_hook_sees_attached_devices() {
    let disk = "<disk type='file'><driver name='qemu'/></disk>";
    let attached = go_hook().on_attach_device("{}", disk).ok();
    assert_eq!(attached.xml, disk.replace("'qemu'", "'qemu' cache='none'"));
    let interface = "<interface type='ethernet'><alias name='ua-blue'/></interface>";
    let refused = go_hook().on_attach_device("{}", interface);
    assert_eq!(refused.veto(), "no blue in Go");
}

/// Both modules limit the bandwidth of a migration that has no limit, and refuse a downtime of 2,000,000 ms.
#[test]
fn hooks_in_go_and_c_tune_and_refuse_migrations() {
    for (hook, veto) in [(go_hook(), "too long in Go"), (c_hook(), "too long in C")] {
        let original = MigrationParameters::default();
        let tuned = hook.pre_migration_source("{}", &original).ok();
        assert_eq!(tuned.bandwidth, 64 << 20, "{veto}");
        assert_eq!(original.differences(&tuned).len(), 1, "{veto}");
        let mut limited = original.clone();
        limited.bandwidth = 1 << 20;
        let tuned = hook.pre_migration_source("{}", &limited).ok();
        assert_eq!(tuned.bandwidth, 1 << 20, "{veto}");
        let mut with_long_downtime = original;
        with_long_downtime.max_downtime = 2_000_000;
        assert_eq!(
            hook.pre_migration_source("{}", &with_long_downtime).veto(),
            veto
        );
    }
}
