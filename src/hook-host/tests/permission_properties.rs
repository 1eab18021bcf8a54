//! Properties of the permission of changes, on random documents and edits.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../domain-xml/tests/generated_documents/mod.rs"]
mod generated_documents;

use domain_xml::PathPattern;
use domain_xml::host::diff;
use generated_documents::hooked;
use hook_host::policy::permission::{self, Checker, Permission, RefusalReason};
use proptest::prelude::*;

fn pattern(path: &str) -> PathPattern {
    PathPattern::parse(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_permitted_without_a_pattern((before, after) in hooked()) {
        let mut checker = Checker::new(&[], &before, &after);
        for change in diff(&before, &after) {
            let refused = matches!(checker.permits(&change), Permission::Refused(_));
            prop_assert!(refused, "{:?}", change);
        }
    }

    #[test]
    fn the_widest_pattern_permits_all_but_dangerous_and_reserved_changes((before, after) in hooked()) {
        let all = [pattern("/domain/**")];
        let mut checker = Checker::new(&all, &before, &after);
        for change in diff(&before, &after) {
            let dangers = checker.dangers(&change);
            match checker.permits(&change) {
                Permission::Granted { by } => {
                    prop_assert_eq!(by, vec![0]);
                    prop_assert_eq!(dangers, vec![], "{:?}", change);
                }
                Permission::Refused(refusal) => match refusal.reason {
                    RefusalReason::Dangerous(_) => prop_assert!(!dangers.is_empty(), "{:?}", change),
                    RefusalReason::Reserved(_) => prop_assert_eq!(refusal.suggested_pattern, None),
                    other => prop_assert!(false, "{:?} {:?}", other, change),
                },
            }
        }
    }

    #[test]
    fn suggested_pattern_permits_the_refused_change((before, after) in hooked()) {
        for change in diff(&before, &after) {
            let mut patterns = Vec::new();
            let mut suggestions = Vec::new();
            // As an operator would, add the suggested pattern of each refusal.
            for _ in 0..100 {
                let Permission::Refused(refusal) = permission::permits(&patterns, &change, &before, &after) else {
                    break;
                };
                let Some(suggested_pattern) = refusal.suggested_pattern else {
                    break;
                };
                prop_assert!(!suggestions.contains(&(refusal.path.clone(), suggested_pattern.clone())), "{} {}", refusal.path, suggested_pattern);
                suggestions.push((refusal.path, suggested_pattern.clone()));
                patterns.push(pattern(&suggested_pattern));
            }
        }
    }

    #[test]
    fn more_patterns_never_permit_less((before, after) in hooked(), pick in any::<prop::sample::Index>()) {
        const PATTERNS: &[&str] = &["/domain/os/**", "/domain/disk[target/@dev='vda']/**", "**/driver", "/domain/*/@dev", "/domain/emulator/**", "/domain/boot[1]"];
        let one = vec![pattern(PATTERNS[pick.index(PATTERNS.len())])];
        let all: Vec<PathPattern> = PATTERNS.iter().map(|path| pattern(path)).collect();
        for change in diff(&before, &after) {
            if let Permission::Granted { .. } = permission::permits(&one, &change, &before, &after) {
                let granted = matches!(permission::permits(&all, &change, &before, &after), Permission::Granted { .. });
                prop_assert!(granted, "{:?}", change);
            }
        }
    }
}
