//! Tests that the answers of topics that are not replayed are the same as in the topics that their reasons name.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;

use super::*;
use crate::recorded_kubevirt_answers::{calls, outcome_comparison};

/// Checks the claims in the reasons of 05-reboot, 05-softreboot-agent and 09-guestpoweroff.
#[test]
fn repeated_answers_are_the_same_as_in_the_named_topic() {
    let outcome = |topic: &str, index: usize| calls(topic).unwrap()[index].clone();
    for (topic, index, original) in [
        ("05-reboot", 2, 2),
        ("05-reboot", 4, 2),
        ("05-reboot", 5, 17),
        ("05-softreboot-agent", 2, 17),
    ] {
        let (repeated, recorded) = (
            outcome(topic, index).outcome,
            outcome("02-answers", original),
        );
        let found =
            outcome_comparison::compare(&recorded, &repeated, &mut BTreeSet::new()).unwrap();
        assert!(found.is_empty(), "{topic} call {index}: {found:#?}");
    }
    let Outcome::GrpcError(poweroff) = outcome("09-guestpoweroff", 1).outcome else {
        panic!("no error");
    };
    let Outcome::Refused(thaw, _) = outcome("03-freeze", 17).outcome else {
        panic!("no refusal");
    };
    let error =
        "(Code=55, Domain=20, Message='Requested operation is not valid: domain is not running')";
    assert!(poweroff.ends_with(error) && thaw.ends_with(error));
}
