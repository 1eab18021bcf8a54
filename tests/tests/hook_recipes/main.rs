//! Tests the recipes of docs/rust.md, which show what a hook can change: each recipe has the effect that its text
//! describes, changes nothing in a second run, needs exactly the wishes (paths and facts about the pod) that the page
//! lists, and results in a domain that is valid by libvirt's schema. The recipes in other languages have the same
//! effects.
#![allow(clippy::unwrap_used)]

mod added_devices;
mod cloud_init;
mod device_id_notations;
mod domain_settings;
mod granted_directory;
mod hook_with_configuration;
mod python_runner;
mod recipe_inputs;
mod recipe_pages;
mod recipe_table;
mod recipes_in_other_languages;

use std::fs;
use std::path::Path;
use std::process::Command;

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::ConditionedPath;
use hook_host::policy::permission::{Checker, Permission};
use hooks_sdk::{CloudInit, Domain, Vmi};
use tests::not_tested::{Missing, not_tested};

use recipe_inputs::{
    documents, domain, set_pod, single_cpu_vmi, single_queue_vmi, unusual_domain, vmi,
};
use recipe_table::{CLOUD_INIT_RECIPES, CloudInitRecipe, DOMAIN_RECIPES, DomainRecipe};

/// libvirt's schema of domains.
const SCHEMA: &str = "/usr/share/libvirt/schemas/domain.rng";

#[test]
fn interfaces_get_queues_only_where_their_tap_devices_have_them() {
    for vmi in [single_queue_vmi(""), single_cpu_vmi("")] {
        let mut edited = Domain::parse(domain()).unwrap();
        domain_settings::interface_queues(&Vmi::new(vmi.to_string()), &mut edited).unwrap();
        assert_eq!(edited.render(), domain(), "{vmi}");
    }
}

#[test]
fn each_recipe_works_with_the_wishes_of_its_page() {
    let (mut refused, mut unused) = (Vec::new(), Vec::new());
    for recipe in DOMAIN_RECIPES {
        let parse = |xml: &str| Document::parse(xml).unwrap();
        // KubeVirt writes <smbios> on amd64 only.
        let without_smbios = domain().replace("<smbios mode=\"sysinfo\"></smbios>", "");
        assert_ne!(without_smbios, domain());
        let edits =
            [domain(), without_smbios].map(|xml| (parse(&xml), edited_by_recipe(recipe, &xml)));
        for (_, after) in &edits {
            let (path, value) = recipe.effect;
            let found = Domain::parse(&**after).unwrap().value(path).unwrap();
            assert_eq!(found.as_deref(), Some(value), "{}: {path}", recipe.name);
        }
        let mut edits = edits
            .map(|(before, after)| (before, parse(&after)))
            .to_vec();
        let unusual = unusual_domain();
        edits.push((parse(&unusual), parse(&edited_by_recipe(recipe, &unusual))));
        let wishes: Vec<ConditionedPath> = recipe
            .wishes
            .iter()
            .filter(|wish| wish.starts_with('/'))
            .map(|wish| ConditionedPath::parse(wish).unwrap())
            .collect();
        let refusal = |wishes: &[ConditionedPath]| {
            edits.iter().find_map(|(before, after)| {
                let mut checker = Checker::new(wishes, before, after);
                let changes = diff(before, after);
                changes
                    .iter()
                    .find_map(|change| match checker.permits(change) {
                        Permission::Refused(refusal) => {
                            Some(format!("{}: {refusal:?}", recipe.name))
                        }
                        Permission::Granted { .. } => None,
                    })
            })
        };
        refused.extend(refusal(&wishes));
        for index in 0..wishes.len() {
            let mut other_wishes = wishes.clone();
            let removed_wish = other_wishes.remove(index);
            if refusal(&other_wishes).is_none() {
                unused.push(format!("{}: {removed_wish:?}", recipe.name));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn a_second_run_changes_nothing() {
    for recipe in DOMAIN_RECIPES {
        for xml in [domain(), unusual_domain()] {
            let edited_once = edited_by_recipe(recipe, &xml);
            assert_eq!(
                edited_by_recipe(recipe, &edited_once),
                edited_once,
                "{}",
                recipe.name
            );
        }
    }
}

/// The domain after a recipe.
fn edited_by_recipe(recipe: &DomainRecipe, xml: &str) -> String {
    set_pod(recipe.wishes);
    let mut domain = Domain::parse(xml).unwrap();
    (recipe.run)(&vmi(), &mut domain).unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
    domain.render()
}

#[test]
fn the_domains_are_valid() {
    if !Path::new(SCHEMA).is_file() {
        let missing = Missing::Installable("libvirt's schemas");
        return not_tested("the recipes' domains", missing).unwrap();
    }
    let temp_dir = tempfile::tempdir().unwrap();
    let mut xmllint = Command::new("xmllint");
    xmllint.args(["--noout", "--relaxng", SCHEMA]);
    for recipe in DOMAIN_RECIPES {
        let mut domain = Domain::parse(edited_by_recipe(recipe, &domain())).unwrap();
        // Empty sysinfo tables, which KubeVirt writes and libvirt accepts, but the schema refuses.
        for sysinfo in domain.children_mut().filter(|child| child.is("sysinfo")) {
            sysinfo
                .remove_children(|table| !table.is("entry") && table.children().next().is_none());
        }
        let file = temp_dir.path().join(recipe.name);
        fs::write(&file, domain.render()).unwrap();
        xmllint.arg(file);
    }
    let output = xmllint.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}

/// The cloud-init data after a recipe.
fn cloud_init_edited_by_recipe(
    recipe: &CloudInitRecipe,
    documents: Vec<(String, String)>,
) -> CloudInit {
    set_pod(recipe.wishes);
    let mut cloud_init = CloudInit::new("noCloud", documents);
    (recipe.run)(&vmi(), &mut cloud_init)
        .unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
    cloud_init
}

#[test]
fn cloud_init_recipes_keep_what_the_user_wrote() {
    for recipe in CLOUD_INIT_RECIPES {
        let cloud_init = cloud_init_edited_by_recipe(recipe, documents());
        let (document, expected) = recipe.effect;
        let found = cloud_init.document(document).unwrap();
        assert!(found.contains(expected), "{found}");
        assert!(
            found.contains("# mine") || found.contains("# ours"),
            "{found}"
        );
        let edited_once = cloud_init.into_documents();
        let edited_twice =
            cloud_init_edited_by_recipe(recipe, edited_once.clone()).into_documents();
        assert_eq!(
            edited_twice, edited_once,
            "{}: a second run changes it",
            recipe.name
        );
    }
}
