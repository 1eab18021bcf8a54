//! Properties of changes: applied, they give the document after.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod generated_documents;

use domain_xml::Document;
use domain_xml::host::{apply, diff};
use generated_documents::{hooked, nth, tree};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applied_they_lead_to_the_document_after((before, after) in hooked()) {
        let changes = diff(&before, &after);
        let applied = apply(&changes, &before).unwrap();
        prop_assert_eq!(diff(&applied, &after), vec![], "{} by {:#?}", applied, changes);
        let back = apply(&diff(&after, &before), &after).unwrap();
        prop_assert_eq!(diff(&back, &before), vec![]);
    }

    #[test]
    fn any_two_documents_lead_to_each_other(before in tree(), after in tree()) {
        let (before, after) = (Document::parse(&before).unwrap(), Document::parse(&after).unwrap());
        let applied = apply(&diff(&before, &after), &before).unwrap();
        prop_assert_eq!(diff(&applied, &after), vec![]);
    }

    #[test]
    fn they_are_refused_elsewhere_or_do_no_harm((before, after) in hooked(), other in tree()) {
        let _ = apply(&diff(&before, &after), &Document::parse(&other).unwrap());
    }

    #[test]
    fn one_edit_changes_one_stretch_of_bytes(xml in tree(), place in any::<prop::sample::Index>()) {
        let mut document = Document::parse(&xml).unwrap();
        let count = document.find_all("**").unwrap().len();
        nth(document.root_mut(), place.index(count)).set_attr("new", "v");
        let edited = document.render();
        prop_assert_eq!(edited.len(), xml.len() + " new='v'".len());
        prop_assert_eq!(edited.replacen(" new='v'", "", 1), xml);
    }
}
