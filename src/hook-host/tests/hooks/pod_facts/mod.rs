//! The WIT interface `pod`: facts are granted by policy, awaited within the deadlines, recorded and replayed.
mod records;

use std::path::PathBuf;
use std::time::Duration;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::{HookDirs, XML, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::{ReplayError, replay};
use hook_host::wasm::LoadOptions;
use hook_host::{
    Chain, CollectConfig, FactError, HookError, Limits, PodConfig, PolicySource, collect,
};

const DESCRIPTION: &str = r#"{"name": "by-hand", "hookPoints": [{"name": "OnDefineDomain"}],
    "wishes": {"pod": ["annotations/a.example/*"]}}"#;
/// A policy that grants all annotations.
const GRANTING_POLICY: &str = "allow: {pod: ['annotations/*']}\n";
const IMPORT: &str = r#"(import "virt-hook:hooks/pod@0.1.1" "annotation" (func $annotation (param i32 i32 i32 i32)))"#;
/// Asks for the annotation `a.example/b`, waits for it, and fails with the answer or error as its message.
const ASK_AND_FAIL: &str = "(call $annotation (i32.const 512) (i32.const 11) (i32.const 1) (i32.const 48))
    (i32.store (i32.const 32) (i32.const 1)) (i32.store (i32.const 36) (i32.const 1))
    (i32.store (i32.const 40) (i32.load (i32.const 56))) (i32.store (i32.const 44) (i32.load (i32.const 60)))
    (return (i32.const 32))";
/// Asks for the annotation, and returns the domain unchanged.
const ASK: &str = "(call $annotation (i32.const 512) (i32.const 11) (i32.const 1) (i32.const 48))";
/// Asks for the annotation, then loops forever.
const ASK_AND_LOOP: &str =
    "(call $annotation (i32.const 512) (i32.const 11) (i32.const 1) (i32.const 48))
    (loop $forever (br $forever))";

/// The directories of a pod with one hook, and the settings of its chain.
struct PodSetup {
    hooks: HookDirs,
    wait: Duration,
    limits: Limits,
    secrets: bool,
}

impl PodSetup {
    fn new(define: &'static str) -> Self {
        let hooks = HookDirs::new();
        let guest = HandwrittenGuest {
            imports: IMPORT,
            fields: r#"(data (i32.const 512) "a.example/b")"#,
            define,
            description: DESCRIPTION,
            ..HandwrittenGuest::default()
        };
        hooks.put("h", "m.wasm", &guest.module());
        Self {
            hooks,
            wait: Duration::from_secs(600),
            limits: Limits::default(),
            secrets: false,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.hooks.hooks().join("..").join(name)
    }

    /// Replaces the file of annotations.
    fn annotate(&self, text: &str) {
        std::fs::create_dir_all(self.at("pod")).unwrap();
        let (part, file) = (self.at("pod/part"), self.at("pod/annotations"));
        std::fs::write(&part, text).unwrap();
        std::fs::rename(part, file).unwrap();
    }

    async fn chain(&self, policy: &str) -> Chain {
        std::fs::write(self.at("policy.yaml"), policy).unwrap();
        let config = CollectConfig {
            record: Some(RecordConfig {
                dir: self.at("records"),
                secrets: self.secrets,
            }),
            policy: PolicySource::File(self.at("policy.yaml")),
            pod: PodConfig {
                dir: Some(self.at("pod")),
                wait: self.wait,
            },
            limits: self.limits.clone(),
            ..self.hooks.config(1)
        };
        collect(config)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The error with which the hook fails.
    async fn answer(&self, policy: &str) -> HookError {
        let chain = self.chain(policy).await;
        let invocation = invocation();
        let defined = chain.on_define_domain(&invocation, "{}", XML.to_owned());
        defined.await.unwrap_err()
    }

    fn record(&self) -> Record {
        let records = std::fs::read_dir(self.at("records")).unwrap();
        let path = records.map(|entry| entry.unwrap().path()).next().unwrap();
        Record::read(&path).unwrap()
    }
}

#[tokio::test]
async fn a_granted_annotation_is_returned() {
    let setup = PodSetup::new(ASK_AND_FAIL);
    setup.annotate("a.example/b=\"one\\ntwo\"\nz=\"\"");
    let text = setup.answer(GRANTING_POLICY).await.to_string();
    assert!(
        text.contains("one\\ntwo") || text.contains("one\ntwo"),
        "{text}"
    );
}

#[tokio::test]
async fn an_annotation_that_a_policy_does_not_grant_is_denied() {
    let setup = PodSetup::new(ASK_AND_FAIL);
    setup.annotate("a.example/b=\"secret\"");
    for (policy, part) in [
        ("{digests: Any}\n", "allow.pod of the operator's policy"),
        ("allow: {pod: []}\n", "allow.pod of"),
        (
            "allow: {pod: ['labels/*', 'annotations/a.example/c']}\n",
            "policy.yaml:1:14",
        ),
    ] {
        let text = setup.answer(policy).await.to_string();
        assert!(text.contains("denied: annotations/a.example/b"), "{text}");
        assert!(text.contains(part) && !text.contains("secret"), "{text}");
    }
    setup
        .hooks
        .put("h", "hook.yaml", b"allow: {pod: [network-info]}\n");
    let text = setup.answer(GRANTING_POLICY).await.to_string();
    assert!(
        text.contains("allow.pod of") && text.contains("hook.yaml:1:14"),
        "{text}"
    );
}

#[tokio::test]
async fn a_wait_beyond_the_calls_deadline_does_not_end_the_call() {
    let mut setup = PodSetup::new(ASK_AND_FAIL);
    setup.limits.call_deadline = Duration::from_secs(1);
    setup.limits.chain_deadline = Duration::from_secs(600);
    setup.annotate("z=\"\"");
    let write = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        setup.annotate("a.example/b=\"late\"");
    };
    let (answer, ()) = tokio::join!(setup.answer(GRANTING_POLICY), write);
    assert!(answer.to_string().contains("late"), "{answer}");
}

#[tokio::test]
async fn absent_fact_is_reported_before_the_deadline_of_the_chain() {
    let mut setup = PodSetup::new(ASK_AND_FAIL);
    setup.limits.call_deadline = Duration::from_secs(20);
    setup.limits.chain_deadline = Duration::from_millis(20_300);
    setup.annotate("z=\"\"");
    let text = setup.answer(GRANTING_POLICY).await.to_string();
    assert!(
        text.contains("annotations/a.example/b is not there") && text.contains("hook point"),
        "{text}"
    );
}

#[tokio::test]
async fn a_hook_that_loops_after_a_wait_still_ends() {
    let mut setup = PodSetup::new(ASK_AND_LOOP);
    setup.limits.call_deadline = Duration::from_millis(400);
    setup.wait = Duration::from_millis(300);
    setup.annotate("z=\"\"");
    let error = setup.answer(GRANTING_POLICY).await;
    assert!(matches!(error, HookError::Deadline { .. }), "{error}");
}

#[tokio::test]
async fn unreadable_pod_facts_are_listed_by_name() {
    let setup = PodSetup::new(ASK_AND_FAIL);
    let chain = setup.chain(GRANTING_POLICY).await;
    let missing = chain.wishes_without_mount();
    assert_eq!(missing.len(), 1);
    assert!(
        missing[0].starts_with("h wants annotations/a.example/*: ")
            && missing[0].contains("/pod/annotations is not there"),
        "{missing:?}"
    );
    let text = setup.answer(GRANTING_POLICY).await.to_string();
    assert!(
        text.contains("/pod/annotations is not there: mount"),
        "{text}"
    );
    setup.annotate("a.example/b=\"x");
    assert_eq!(
        setup.chain(GRANTING_POLICY).await.wishes_without_mount(),
        [""; 0]
    );
    let text = setup.answer(GRANTING_POLICY).await.to_string();
    assert!(text.contains("/pod/annotations: line 1"), "{text}");
}
