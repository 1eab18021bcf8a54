"""A hook, and its "no"."""


class Veto(Exception):
    """The virtual machine must not go on; its owner reads the words."""


class Hook:
    """A hook's description, and its hook points, which do nothing unless they are overridden."""

    name = "hook"
    version = "0.1.0"
    # Higher runs first; an author's number, which `hook.yaml` can replace.
    priority = 0
    # What it changes of the domain, as path patterns; without any it may change nothing. One that ends in the name of an
    # element includes its own attributes. For a path with a condition on what is written there, a dict:
    # {"path": "/domain/devices/serial/log/@file", "below": "/var/log/vms"}; the others are "one-of" (a list),
    # "matches" (a regular expression for whole values) and "at-most" (a number).
    paths = []
    # The keys of its configuration.
    config_keys = []
    # The directories that it reads.
    directories = []
    # The facts about the pod that it reads with `virt_hook.pod`.
    pod_facts = []
    # The parameters of a migration that it changes.
    migration = []

    def pre_start(self, vmi):
        """Before anything is prepared. `vmi` is the VirtualMachineInstance, a `Vmi`, here and below."""

    def pre_cloud_init_iso(self, vmi, data_source, documents):
        """Before the cloud-init image is written. `documents` is a dict by name (user-data, network-data,
        meta-data) of texts, a `Documents`, to be changed in place; `data_source` is noCloud or configDrive."""

    def on_define_domain(self, vmi, domain):
        """Before the domain is defined. `domain` is a `Domain`, to be changed in place."""

    def on_attach_device(self, vmi, device):
        """Before a device is attached to the running virtual machine. `device` is a `Device`: the `<disk>`,
        `<interface>` or `<hostdev>` element, to be changed in place."""

    def pre_migration_source(self, vmi, migration):
        """Before the virtual machine is migrated to another node. `migration` is a `Migration`, a dict of
        parameters to be changed in place. A veto ends the migration."""

    def shutdown(self):
        """When the launcher ends."""
