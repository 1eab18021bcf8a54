/* The subset of <string.h> that hooks and the bindings use; libc.c implements it. */
#ifndef SDK_STRING_H
#define SDK_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *to, int value, size_t length);
int memcmp(const void *one, const void *other, size_t length);
void *memchr(const void *in, int value, size_t length);
size_t strlen(const char *of);
int strcmp(const char *one, const char *other);
char *strchr(const char *in, int value);
size_t strcspn(const char *of, const char *without);

#endif
