//! Edits of a domain that a module makes under the widest wish, through the real check of its answer. `edits.jsonl` has a
//! line for each: what is refused, and where; what is permitted, and why that is harmless.
mod edits;
mod identity;
mod scoped_wishes;

use std::path::Path;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, invocation};
use edits::{Verdict, edits};
use hook_host::{Chain, CollectConfig, HookError, Run, collect};

/// A domain as KubeVirt writes it.
const BASE: &str = include_str!("base.xml");

/// The code that returns the VMI as the domain: a test writes the whole answer of the module into the VMI.
const RETURN_VMI: &str = "(return (call $done (local.get 0) (local.get 1)))";

/// The code that writes the mark of UTF-16 before the domain, over its first two bytes.
const WRITE_UTF16_MARK: &str = "(i32.store16 (local.get $xml) (i32.const 0xfeff))";

/// A module that returns the VMI as the domain, with the wishes in this description.
async fn chain_of(description: &'static str) -> Chain {
    chain_of_guest(HandwrittenGuest {
        define: RETURN_VMI,
        description,
        ..HandwrittenGuest::default()
    })
    .await
}

async fn chain_of_guest(guest: HandwrittenGuest) -> Chain {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "m.wasm", &guest.module());
    let config = CollectConfig {
        artifacts_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-xml"),
        ..dirs.config(1)
    };
    collect(config).await.unwrap()
}

async fn define(chain: &Chain, answer: &str) -> Result<(String, Vec<Run>), HookError> {
    define_from(chain, BASE, answer).await
}

async fn define_from(
    chain: &Chain,
    domain: &str,
    answer: &str,
) -> Result<(String, Vec<Run>), HookError> {
    chain
        .on_define_domain(&invocation(), answer, domain.to_owned())
        .await
}

/// The path that the error names, or its message.
fn place(error: HookError) -> String {
    match error {
        HookError::Denied { path, .. } => path,
        HookError::BadOutput { message, .. } => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_edit_under_the_widest_wish_is_decided() {
    let chain = chain_of("").await;
    let mut wrong = Vec::new();
    for edit in edits(BASE) {
        let decided = match &edit.answer {
            Some(answer) => define(&chain, answer).await,
            None => {
                let guest = HandwrittenGuest {
                    define: WRITE_UTF16_MARK,
                    ..HandwrittenGuest::default()
                };
                define(&chain_of_guest(guest).await, "{}").await
            }
        };
        let is_right = match (&edit.verdict, decided) {
            (Verdict::Permitted, Ok(_)) => continue,
            (Verdict::Refused(_), Ok(_)) => "permitted".to_owned(),
            (Verdict::Permitted, Err(error)) => place(error),
            (Verdict::Refused(expected), Err(error)) => {
                let place = place(error);
                if place.contains(expected.as_str()) {
                    continue;
                }
                place
            }
        };
        wrong.push(format!("{}: {is_right}", edit.name));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn utf16_without_a_mark_is_named_too() {
    let chain = chain_of("").await;
    let xml: String = BASE.chars().flat_map(|c| [c, '\0']).collect();
    let refused = place(define(&chain, &xml).await.unwrap_err());
    assert!(
        refused.contains("it is UTF-16, and only UTF-8 is accepted"),
        "{refused}"
    );
}

/// Numbers that end libvirt are limited for gRPC sidecars too, which no grant restricts.
#[tokio::test]
async fn numbers_that_end_libvirt_are_refused_from_sidecars() {
    let dirs = HookDirs::new();
    let behaviour = Behaviour {
        define: |xml| {
            let iothreads = "<features/><iothreads>4294967295</iothreads>";
            Ok(xml.replace("<features/>", iothreads))
        },
        ..Behaviour::default()
    };
    let _sidecar = Sidecar::serve(&dirs.at("s", "s.sock"), behaviour);
    let chain = collect(dirs.config(1)).await.unwrap();
    let refused = place(define(&chain, "{}").await.unwrap_err());
    assert!(
        refused.contains("/domain/iothreads is \"4294967295\"") && refused.contains("1024"),
        "{refused}"
    );
}
