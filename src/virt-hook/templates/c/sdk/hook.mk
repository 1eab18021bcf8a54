# How a hook in C is built and tested. NAME is the hook's; HOOK_CFLAGS and HOOK_LDFLAGS that are set before this file is
# included stay. CFLAGS and LDFLAGS are not read: those of the environment are for programs of this machine.

CC = clang
VIRT_HOOK ?= virt-hook

# No C library: sdk/libc.c has what hooks need of it.
HOOK_CFLAGS ?= --target=wasm32 -std=c11 -Os -Wall -Wextra -Werror -ffreestanding -fno-builtin -isystem sdk/libc
HOOK_LDFLAGS ?= --target=wasm32 -nostdlib -Wl,--no-entry,--stack-first,--strip-debug

TESTS = $(wildcard test_*.c)
OWN = $(filter-out $(TESTS),$(wildcard *.c))
OBJECTS = $(patsubst %.c,build/%.o,$(OWN) $(wildcard sdk/*.c sdk/bindings/*.c))

build/$(NAME).wasm: build/$(NAME).core.wasm
	$(VIRT_HOOK) wrap $< --out $@

build/$(NAME).core.wasm: $(OBJECTS)
	$(CC) $(HOOK_LDFLAGS) -o $@ $(OBJECTS)

# In subdirectories too.
HEADERS := $(shell find -L . -name build -prune -o -name '*.h' -print)

build/%.o: %.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(HOOK_CFLAGS) -c -o $@ $<

# Programs of this machine, with its C library: no WebAssembly, and a debugger works. What the host calls, and what calls
# the host, is left out.
NATIVE_SDK = $(filter-out sdk/libc.c,$(shell grep -L 'import_module\|export_name' sdk/*.c sdk/bindings/*.c)) $(wildcard sdk/native/*.c)

build/test_%: test_%.c $(OWN) $(NATIVE_SDK) $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=c11 -g -Wall -Wextra -Werror -o $@ $< $(OWN) $(NATIVE_SDK)

.PHONY: native test check clean
native: $(TESTS:%.c=build/%)
	@for test in $^; do echo $$test; ./$$test || exit 1; done

test: native build/$(NAME).wasm
	$(VIRT_HOOK) test --hook build/$(NAME).wasm cases

VMIS = $(wildcard cases/*/vmi.yaml cases/*/vmi.json)
check: build/$(NAME).wasm
	$(VIRT_HOOK) check $< $(VMIS:%=--vmi %)

clean:
	rm -rf build
