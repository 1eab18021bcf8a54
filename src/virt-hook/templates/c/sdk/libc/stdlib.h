/* The subset of <stdlib.h> that hooks and the bindings use; libc.c implements it. */
#ifndef SDK_STDLIB_H
#define SDK_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *old);
_Noreturn void abort(void);

#endif
