/* Tests of a hook that run natively, without the host: a test_*.c has main(), and calls the hook's functions. */
#ifndef NATIVE_H
#define NATIVE_H

#include "../virt_hook.h"

/* Ends the test with the place and what does not hold. */
#define CHECK(condition) native_check(condition, #condition, __FILE__, __LINE__)
/* The same for two texts, which are shown if they differ. */
#define CHECK_TEXT(found, wanted) native_check_text(found, wanted, __FILE__, __LINE__)

void native_check(bool holds, const char *condition, const char *file, int line);
void native_check_text(text found, const char *wanted, const char *file, int line);

/* Calls hook_on_define_domain or hook_on_attach_device as the host does, twice: the second run must change nothing, and a
 * wish of hook_describe() must cover each change. Ends the test where that does not hold; gives what the hook gives.
 * Wishes are read without JSON escapes: write predicates with single quotes. */
bool native_edit(bool (*hook)(text vmi, text *xml), text vmi, text *xml);

/* Whether hook_describe() has a name among the wishes of a kind: config, pod, migration, dirs. */
bool native_is_declared(const char *kind, text name);

/* What hook_config() and hook_invocation() find from now on. A key that hook_describe() does not declare ends the
 * test, as the host would not give it. */
void native_config(const char *key, const char *value);
void native_invocation(const char *key, const char *value);

/* What pod_annotation(), pod_label(), pod_networks() and pod_default_network() find from now on. `ip` may be "". Facts that
 * hook_describe() does not declare are denied. */
void native_pod_annotation(const char *key, const char *value);
void native_pod_label(const char *key, const char *value);
void native_pod_network(const char *name, const char *ip, const char *mac, bool is_default);

/* The words of the last hook_veto() or hook_fail(), or those of a hook that returned false without them. */
text native_error(void);
/* Whether the last one was a veto. */
bool native_vetoed(void);

#endif
