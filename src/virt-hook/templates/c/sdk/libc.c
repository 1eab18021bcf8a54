/* The little of C's library that a hook needs, so that clang and lld are all it takes.
 *
 * Every call gets memory that nobody has used, and all of it goes when the call ends. So malloc only
 * moves a mark forward, and free does nothing. A hook that wants a whole library is built with
 * wasi-libc instead of this file: docs/c.md of virt-launcher says how. */
#include <stdlib.h>
#include <string.h>

#define PAGE 65536u
#define ALIGNMENT 16u

extern unsigned char __heap_base;
static size_t mark;

void abort(void) { __builtin_trap(); }

/* In front of each piece stands its size, for realloc. */
void *malloc(size_t size) {
    if (mark == 0) mark = ((size_t)&__heap_base + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size > (size_t)-1 - mark - 2 * ALIGNMENT) return NULL;
    size_t start = mark + ALIGNMENT;
    size_t end = start + (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t have = __builtin_wasm_memory_size(0), need = end / PAGE + 1;
    if (need > have && __builtin_wasm_memory_grow(0, need - have) == (size_t)-1) return NULL;
    ((size_t *)start)[-1] = size;
    mark = end;
    return (void *)start;
}

void free(void *old) { (void)old; }

void *calloc(size_t count, size_t size) {
    /* Unused memory is zero. */
    return size != 0 && count > (size_t)-1 / size ? NULL : malloc(count * size);
}

void *realloc(void *old, size_t size) {
    size_t had = old ? ((size_t *)old)[-1] : 0;
    if (old && size <= had) return old;
    void *new = malloc(size);
    if (new) memcpy(new, old, had);
    return new;
}

void *memmove(void *to, const void *from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f) {
        for (size_t i = 0; i < length; i++) t[i] = f[i];
    } else {
        for (size_t i = length; i > 0; i--) t[i - 1] = f[i - 1];
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
    unsigned char *t = to;
    const unsigned char *f = from;
    for (size_t i = 0; i < length; i++) t[i] = f[i];
    return to;
}

void *memset(void *to, int value, size_t length) {
    unsigned char *t = to;
    for (size_t i = 0; i < length; i++) t[i] = (unsigned char)value;
    return to;
}

int memcmp(const void *one, const void *other, size_t length) {
    const unsigned char *a = one, *b = other;
    for (size_t i = 0; i < length; i++) {
        if (a[i] != b[i]) return a[i] - b[i];
    }
    return 0;
}

void *memchr(const void *in, int value, size_t length) {
    const unsigned char *bytes = in;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == (unsigned char)value) return (void *)(bytes + i);
    }
    return NULL;
}

size_t strlen(const char *of) {
    size_t length = 0;
    while (of[length]) length++;
    return length;
}

int strcmp(const char *one, const char *other) {
    while (*one && *one == *other) one++, other++;
    return (unsigned char)*one - (unsigned char)*other;
}

char *strchr(const char *in, int value) {
    for (;; in++) {
        if (*in == (char)value) return (char *)in;
        if (!*in) return NULL;
    }
}

size_t strcspn(const char *of, const char *without) {
    size_t length = 0;
    while (of[length] && !strchr(without, of[length])) length++;
    return length;
}
