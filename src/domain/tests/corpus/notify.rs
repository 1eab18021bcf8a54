//! notify/: libvirt's XML to the Domain JSON that virt-handler decodes.

use domain::metadata::{GracePeriod, KubeVirtMetadata};
use domain::state::{LifeCycle, reason};
use domain::wire::Domain;

use super::{compare, corpus, names, read, run};

fn check(case: &str) -> Result<(), String> {
    let file = |ending: &str| read(&corpus().join(format!("notify/{case}{ending}")));
    let spec = domain::parse::parse(&file(".dumpxml.xml")).map_err(|error| error.to_string())?;
    let expected: serde_json::Value = serde_json::from_str(&file(".domain.json")).unwrap();
    let [namespace, name] =
        ["namespace", "name"].map(|key| expected["ObjectMeta"][key].as_str().unwrap());
    let metadata = KubeVirtMetadata {
        uid: "11111111-2222-3333-4444-555555555555".into(),
        grace_period: Some(GracePeriod {
            deletion_grace_period_seconds: 30,
            ..GracePeriod::default()
        }),
        ..KubeVirtMetadata::default()
    };
    let domain = Domain::new(
        namespace,
        name,
        spec,
        metadata,
        LifeCycle::Running,
        reason::UNKNOWN,
    );
    let actual = serde_json::from_slice(&domain.to_json().unwrap()).unwrap();
    compare::json(&expected, &actual, "")
}

#[test]
fn domains_are_reported_in_kubevirts_words() {
    run(
        "notify",
        &names(&corpus().join("notify"), ".domain.json"),
        check,
    );
}
