"""Runs recipes for a test: reads a JSON list of [recipe, VMI, domain or documents, pod, wishes], and prints the results."""

import json
import sys

sys.path.insert(0, "sdk")

import cloud_init  # noqa: E402
import devices  # noqa: E402
import resources  # noqa: E402

from virt_hook import Hook, Veto  # noqa: E402
from virt_hook.testing import call  # noqa: E402


def run(recipe, vmi, given, pod, wishes):
    module = next(module for module in (devices, resources, cloud_init) if hasattr(module, recipe))

    class Recipe(Hook):
        paths = [wish for wish in wishes if wish.startswith("/")]
        pod_facts = [wish for wish in wishes if not wish.startswith("/")]

        def on_define_domain(self, vmi, domain):
            getattr(module, recipe)(vmi, domain)

        def pre_cloud_init_iso(self, vmi, data_source, documents):
            getattr(module, recipe)(vmi, documents)

    hook = call(Recipe, pod=pod)
    try:
        return hook.on_define_domain(vmi, given) if isinstance(given, str) else hook.pre_cloud_init_iso(vmi, "noCloud", given)
    except Veto as veto:
        return {"veto": str(veto)}


json.dump([run(*case) for case in json.load(sys.stdin)], sys.stdout)
