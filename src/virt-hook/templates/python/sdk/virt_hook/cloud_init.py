"""Cloud-init data, before it is written for the guest."""

import json
import re
from contextlib import contextmanager

from .yaml import CloudInitError, Yaml

__all__ = ["CloudConfig", "CloudInitError", "Documents", "Yaml"]

_PERMISSIONS = re.compile("[0-7]{3,4}")


class Documents(dict):
    """The documents by name: user-data, network-data, meta-data. Assigning replaces one."""

    def __setitem__(self, name, text):
        if not isinstance(text, str):
            raise TypeError(f"the document {name} is a text, and not a value of the type {type(text).__name__}")
        super().__setitem__(name, text)

    @property
    def is_cloud_config(self):
        """Whether the user data is a #cloud-config document, or nothing yet."""
        first = (self.get("user-data") or "#cloud-config").split("\n", 1)[0]
        return first.rstrip() == "#cloud-config"

    @contextmanager
    def cloud_config(self):
        """Edits the #cloud-config user data. Comments and everything else are kept; after an exception the user data
        is unchanged.

        with documents.cloud_config() as config:
            config.add_package("qemu-guest-agent")
        """
        with self._edited("user-data", CloudConfig(self.get("user-data", ""))) as config:
            yield config

    @contextmanager
    def network_data(self):
        """Edits the network data as YAML, in the same way."""
        with self._edited("network-data", Yaml(self.get("network-data", ""))) as network:
            yield network

    @contextmanager
    def _edited(self, name, yaml):
        try:
            yield yaml
        except CloudInitError as error:
            raise CloudInitError(f"{name}, {error}") from None
        self[name] = str(yaml)


class CloudConfig(Yaml):
    """A #cloud-config document: YAML that begins with that line. Empty user data is an empty document."""

    def __init__(self, user_data=""):
        first = user_data.split("\n", 1)[0]
        if user_data and first.rstrip() != "#cloud-config":
            begins = first.rstrip("\r")[:40]
            raise CloudInitError(f'the user data is no #cloud-config document: it begins with "{begins}"')
        super().__init__(user_data or "#cloud-config\n")

    def add_run_command(self, *command):
        """Adds a command to runcmd: a program and its arguments, run without a shell."""
        self.add("runcmd", list(command))

    def add_file(self, path, permissions, content):
        """Adds a file to write_files. The path is absolute, and the permissions are a text of three or four octal
        digits, as in "0644"."""
        if not path.startswith("/"):
            reason = "its path is not absolute"
        elif "\0" in path:
            reason = "its path contains a NUL character"
        elif not isinstance(permissions, str) or not _PERMISSIONS.fullmatch(permissions):
            reason = "its permissions are not three or four octal digits, as in 0600"
        else:
            reason = None
        if reason:
            raise CloudInitError(f"the file {json.dumps(path, ensure_ascii=False)}: {reason}")
        self.add("write_files", {"path": path, "permissions": permissions, "content": content})

    def add_package(self, name):
        """Adds a package to packages, which the guest installs at its first boot."""
        self.add("packages", name)

    def add_user(self, name, members):
        """Adds a user with these members of cloud-init's users (groups, sudo, ssh_authorized_keys, ...). The image's
        own user is kept: a list made here begins with "default"."""
        if not self.contains("users"):
            self.add_word("users", "default")
        self.add("users", {"name": name, **members})
