/* The host of native tests. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>

/* Configuration and invocation values that a test has set; `kind` is 'c' or 'i'. */
static struct {
    char kind;
    const char *key, *value;
} facts[64];
static size_t count;
/* The same as with the real host. */
#define NO_REASON "it returned false without hook_veto() or hook_fail()"
static text words = {NO_REASON, sizeof NO_REASON - 1};
static bool vetoed;

void native_check(bool holds, const char *condition, const char *file, int line) {
    if (holds) return;
    fprintf(stderr, "%s:%d: it does not hold: %s\n", file, line, condition);
    exit(1);
}

void native_check_text(text found, const char *wanted, const char *file, int line) {
    if (text_is(found, wanted)) return;
    fprintf(stderr, "%s:%d:\n   found: %.*s\n  wanted: %s\n", file, line, (int)found.length, found.bytes, wanted);
    exit(1);
}

static void set_fact(char kind, const char *key, const char *value) {
    if (count == sizeof facts / sizeof *facts) abort();
    facts[count].kind = kind, facts[count].key = key, facts[count].value = value;
    count++;
}

/* The last value of a key counts. */
static bool fact(char kind, const char *key, text *value) {
    for (size_t i = count; i-- > 0;) {
        if (facts[i].kind != kind || !text_is(text_of(key), facts[i].key)) continue;
        *value = text_of(facts[i].value);
        return true;
    }
    return false;
}

void native_config(const char *key, const char *value) {
    if (!native_is_declared("config", text_of(key))) {
        fprintf(stderr, "the host would not give the configuration key %s: it is missing in \"config\" of the wishes\n", key);
        exit(1);
    }
    set_fact('c', key, value);
}
void native_invocation(const char *key, const char *value) { set_fact('i', key, value); }
text native_error(void) { return words; }
bool native_vetoed(void) { return vetoed; }

/* ---- what the host offers ---------------------------------------------------------------------- */

bool hook_config(const char *key, text *value) { return fact('c', key, value); }
bool hook_invocation(const char *key, text *value) { return fact('i', key, value); }

bool hook_veto(text why) {
    words = why, vetoed = true;
    return false;
}

bool hook_fail(text why) {
    words = why, vetoed = false;
    return false;
}

void hook_log(virt_hook_hooks_host_level_t level, text line) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    fprintf(stderr, "%s: %.*s\n", levels[level], (int)line.length, line.bytes);
}
