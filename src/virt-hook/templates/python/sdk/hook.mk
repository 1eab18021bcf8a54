# How a hook in Python is built and tested. NAME is the hook's; PACKAGES, set before this file is included, are more
# directories to import from. HOOK_VENV is the virtual environment; the environment's PYTHON and PACKAGES mean other things.

HOOK_VENV ?= .venv
ifeq ($(origin PACKAGES),environment)
PACKAGES =
endif
VIRT_HOOK ?= virt-hook

TESTS = $(wildcard test_*.py)
# All that an import may read, in subdirectories too.
SOURCES := $(shell find -L . $(PACKAGES) \( -name '.?*' ! -name '..' -o -name __pycache__ -o -path './$(HOOK_VENV)' -o -path ./build \
    -o -path ./cases \) -prune -o -type f ! -path './test_*.py' ! -name '* *' -print)

# Only what the hook uses of 0.1.1 is in its world, so that a host without the rest can load it.
WORLD = build/wit/module.wit
OWN = $(filter-out ./sdk/%,$(filter %.py,$(SOURCES)))
uses = $(shell grep -lE '$(1)' $(OWN) /dev/null)
OPTIONAL = $(if $(call uses,def on_attach_device),export virt-hook:hooks/attach-device@0.1.1;) \
    $(if $(call uses,def pre_migration_source),export virt-hook:hooks/migration-source@0.1.1;) \
    $(if $(call uses,virt_hook[.]pod|from virt_hook import.*\bpod\b|\bpod[.](annotation|label|networks|default_network|network_info)\b),import virt-hook:hooks/pod@0.1.1;)

build/$(NAME).wasm: $(SOURCES) $(HOOK_VENV)/bin/componentize-py
	@mkdir -p $(dir $(WORLD))
	@echo 'package virt-hook:module; world module { include virt-hook:hooks/hook@0.1.0; $(OPTIONAL) }' > $(WORLD)
	$(HOOK_VENV)/bin/componentize-py -d sdk/wit -d sdk/wit-0.1.1 -d $(dir $(WORLD)) -w virt-hook:module/module \
	    componentize --stub-wasi -p . -p sdk $(PACKAGES:%=-p %) -o $@ hook

# An environment of its own, with the one version of componentize-py that the SDK is written for; made once.
$(HOOK_VENV)/bin/componentize-py: | sdk/requirements.txt
	python3 -m venv $(HOOK_VENV)
	$(HOOK_VENV)/bin/python -m pip install --quiet -r sdk/requirements.txt

# The tests in test_*.py, with this machine's Python.
.PHONY: native test check clean
EMPTY =
native:
	$(if $(TESTS),PYTHONPATH=$(subst $(EMPTY) $(EMPTY),:,$(strip sdk $(PACKAGES))) python3 -m virt_hook.run_tests $(TESTS))

test: native build/$(NAME).wasm
	$(VIRT_HOOK) test --hook build/$(NAME).wasm cases

VMIS = $(wildcard cases/*/vmi.yaml cases/*/vmi.json)
check: build/$(NAME).wasm
	$(VIRT_HOOK) check $< $(VMIS:%=--vmi %)

clean:
	rm -rf build
