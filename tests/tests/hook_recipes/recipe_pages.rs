//! Tests that the pages contain all recipes with their wishes and imports.

use std::collections::BTreeSet;
use std::fs;

use tests::binaries::workspace;

use crate::recipe_table::{DOMAIN_RECIPES, all_wishes};

#[test]
fn the_page_lists_each_recipe_with_its_wishes() {
    let page = fs::read_to_string(workspace().join("docs/rust.md")).unwrap();
    let code: BTreeSet<&str> = page.split('`').collect();
    let (_, page_imports) = page.split_once("`use hooks_sdk::{").unwrap();
    let (page_imports, _) = page_imports.split_once("};").unwrap();
    let page_imports: Vec<&str> = page_imports.split(", ").collect();
    for recipe in DOMAIN_RECIPES {
        assert!(
            page.contains(&format!("fn {}(", recipe.name)),
            "{}",
            recipe.name
        );
    }
    for wish in all_wishes() {
        assert!(code.contains(wish), "{wish}");
    }
    for source in ["cloud_init", "added_devices", "domain_settings"] {
        let path = format!("tests/tests/hook_recipes/{source}.rs");
        let source = fs::read_to_string(workspace().join(path)).unwrap();
        for function in source
            .lines()
            .filter_map(|line| line.strip_prefix("pub(crate) "))
        {
            assert!(page.contains(function), "the page lacks {function}");
        }
        let imports = source
            .lines()
            .find_map(|line| line.strip_prefix("use hooks_sdk::{")?.strip_suffix("};"));
        for name in imports.unwrap().split(", ") {
            assert!(
                page_imports.contains(&name),
                "the page does not import {name}"
            );
        }
    }
}
/// The names that a line of a recipe's file imports.
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
            &["python-recipes/devices.py", "python-recipes/resources.py"][..],
            "def ",
        ),
        (
            "docs/go-recipes.md",
            &["go-recipes/devices.go", "go-recipes/resources.go"],
            "func ",
        ),
        (
            "docs/c-recipes.md",
            &["c-recipes/devices.c", "c-recipes/resources.c"],
            "bool ",
        ),
    ] {
        let text = fs::read_to_string(workspace().join(page)).unwrap();
        let (introduction, _) = text.split_once("\n## ").unwrap();
        let is_c = page.starts_with("docs/c-");
        for wish in all_wishes().filter(|wish| !is_c || !wish.starts_with("network-status")) {
            assert!(text.contains(&format!("`{wish}`")), "{page}: {wish}");
        }
        let mut count = 0;
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
                    count += usize::from(line.contains("domain"));
                }
            }
        }
        assert_eq!(count, DOMAIN_RECIPES.len(), "{page}");
    }
}
