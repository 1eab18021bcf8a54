//! Properties of permissions on random documents and edits.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../domain-xml/tests/generated_documents/mod.rs"]
mod generated_documents;

use domain_xml::{PathPattern, diff};
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
    fn everything_permits_all_but_the_dangerous_and_the_reserved((before, after) in hooked()) {
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
            let mut places = Vec::new();
            // As many as an operator would add, one refusal at a time.
            for _ in 0..100 {
                let Permission::Refused(refusal) = permission::permits(&patterns, &change, &before, &after) else {
                    break;
                };
                let Some(suggested_pattern) = refusal.suggested_pattern else {
                    break;
                };
                prop_assert!(!places.contains(&(refusal.path.clone(), suggested_pattern.clone())), "{} {}", refusal.path, suggested_pattern);
                places.push((refusal.path, suggested_pattern.clone()));
                patterns.push(pattern(&suggested_pattern));
            }
        }
    }

    #[test]
    fn more_patterns_never_permit_less((before, after) in hooked(), pick in any::<prop::sample::Index>()) {
        const SOME: &[&str] = &["/domain/os/**", "/domain/disk[target/@dev='vda']/**", "**/driver", "/domain/*/@dev", "/domain/emulator/**", "/domain/boot[1]"];
        let one = vec![pattern(SOME[pick.index(SOME.len())])];
        let all: Vec<PathPattern> = SOME.iter().map(|path| pattern(path)).collect();
        for change in diff(&before, &after) {
            if let Permission::Granted { .. } = permission::permits(&one, &change, &before, &after) {
                let granted = matches!(permission::permits(&all, &change, &before, &after), Permission::Granted { .. });
                prop_assert!(granted, "{:?}", change);
            }
        }
    }
}
