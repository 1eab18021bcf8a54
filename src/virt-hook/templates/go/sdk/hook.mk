# How a hook in Go is built and tested. NAME is the hook's.

GO ?= go
VIRT_HOOK ?= virt-hook

build/$(NAME).wasm: build/$(NAME).core.wasm
	$(VIRT_HOOK) wrap $< --out $@

# All that `go build` may read, files that are embedded included, here and in modules that go.mod replaces by a directory.
SOURCES := $(shell find -L . $$(sed -n 's/.*=> *\(\.\.[^ ]*\).*/\1/p' go.mod) \( -name '.?*' ! -name '..' -o -path ./build -o -path ./cases \) -prune \
    -o -type f ! -name '*_test.go' ! -name '* *' -print)

build/$(NAME).core.wasm: $(SOURCES)
	@mkdir -p $(@D)
	GOOS=wasip1 GOARCH=wasm $(GO) build -buildmode=c-shared -trimpath -o $@ .

.PHONY: native test check clean
native:
	$(GO) test ./...

test: native build/$(NAME).wasm
	$(VIRT_HOOK) test --hook build/$(NAME).wasm cases

VMIS = $(wildcard cases/*/vmi.yaml cases/*/vmi.json)
check: build/$(NAME).wasm
	$(VIRT_HOOK) check $< $(VMIS:%=--vmi %)
	@others=$$("$$($(GO) env GOROOT)/bin/gofmt" -l . | tr '\n' ' '); \
	    test -z "$$others" || echo "not formatted as gofmt does it: $$others(\`$(GO) fmt ./...\` does)"

clean:
	rm -rf build
