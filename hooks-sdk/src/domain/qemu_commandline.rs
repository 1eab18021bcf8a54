//! QEMU's command line, which libvirt passes on unchecked. The operator must grant it: see `docs/policy.md`.

use domain_xml::Element;

use super::Domain;

impl Domain {
    /// Adds arguments to QEMU's command line, one `<qemu:arg>` each, unless the same arguments
    /// are already there in this order. Declares the namespace if needed.
    ///
    /// ```
    /// # use hooks_sdk::Domain;
    /// let mut domain = Domain::parse("<domain type='kvm'>\n  <name>vm</name>\n</domain>\n")?;
    /// domain.add_qemu_args(["-fw_cfg", "name=opt/a,string=b"]);
    /// assert_eq!(domain.qemu_args(), ["-fw_cfg", "name=opt/a,string=b"]);
    /// assert!(domain.render().contains("xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_qemu_args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<str>>) {
        let added: Vec<_> = arguments.into_iter().collect();
        let existing = self.qemu_args();
        let is_added = |window: &[String]| {
            let mut pairs = window.iter().zip(&added);
            pairs.all(|(existing, added)| existing == added.as_ref())
        };
        if added.is_empty() || existing.windows(added.len()).any(is_added) {
            return;
        }
        let commandline = self.ensure_child("qemu:commandline");
        for value in &added {
            commandline.append(Element::new("qemu:arg").with_attr("value", value));
        }
    }

    /// Sets a variable in QEMU's environment.
    pub fn set_qemu_env(&mut self, name: &str, value: &str) {
        let commandline = self.ensure_child("qemu:commandline");
        let is_variable =
            |child: &&mut Element| child.is("qemu:env") && child.is_attr("name", name);
        if let Some(existing) = commandline.children_mut().find(is_variable) {
            existing.set_attr("value", value);
            return;
        }
        let variable = Element::new("qemu:env").with_attr("name", name);
        commandline.append(variable.with_attr("value", value));
    }

    /// The arguments that earlier hooks or KubeVirt added to QEMU's command line.
    pub fn qemu_args(&self) -> Vec<String> {
        let commandline = self.child("qemu:commandline").into_iter();
        let args = commandline.flat_map(|commandline| commandline.children_named("qemu:arg"));
        args.filter_map(|arg| Some(arg.attr("value")?.into_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<domain type='kvm'>\n  <name>vm</name>\n</domain>\n";

    #[test]
    fn qemu_arguments_are_added_once() {
        let mut domain = Domain::parse(XML).unwrap();
        domain.add_qemu_args(["-device", "foo"]);
        let once = domain.render();
        domain.add_qemu_args(["-device", "foo"]);
        assert_eq!(domain.render(), once);
        assert!(
            once.contains("xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"),
            "{once}"
        );
        assert!(once.contains("  <qemu:commandline>\n    <qemu:arg value='-device'/>\n    <qemu:arg value='foo'/>\n  </qemu:commandline>\n</domain>"), "{once}");
    }

    #[test]
    fn a_variable_is_set_once_and_the_documents_prefix_is_kept() {
        let mut domain = Domain::parse(
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline><q:env name='A' value='1'/></q:commandline></domain>",
        )
        .unwrap();
        domain.set_qemu_env("A", "2");
        domain.set_qemu_env("B", "3");
        domain.set_qemu_env("B", "3");
        assert_eq!(
            domain.render(),
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:commandline><q:env name='A' value='2'/><q:env name='B' value='3'/></q:commandline></domain>"
        );
        assert!(domain.qemu_args().is_empty());
    }

    #[test]
    fn empty_list_adds_no_arguments() {
        let mut domain = Domain::parse(XML).unwrap();
        domain.add_qemu_args([""; 0]);
        assert_eq!(domain.render(), XML);
    }
}
