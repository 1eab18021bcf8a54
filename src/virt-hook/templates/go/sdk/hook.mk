# How a hook in Go is built and tested. NAME is the hook's.

GO ?= go
VIRT_HOOK ?= virt-hook

build/$(NAME).wasm: build/$(NAME).core.wasm
	$(VIRT_HOOK) wrap $< --out $@

build/$(NAME).core.wasm: go.mod $(wildcard *.go sdk/*.go)
	@mkdir -p $(@D)
	GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -trimpath -o $@ .

.PHONY: native test check clean
native:
	$(GO) test .

test: native build/$(NAME).wasm
	$(VIRT_HOOK) test --hook build/$(NAME).wasm cases

VMIS = $(wildcard cases/*/vmi.yaml cases/*/vmi.json)
check: build/$(NAME).wasm
	$(VIRT_HOOK) check $< $(VMIS:%=--vmi %)

clean:
	rm -rf build
