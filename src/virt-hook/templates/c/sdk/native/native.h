/* Tests of a hook that run natively, without the host: a test_*.c has main(), and calls the hook's functions. */
#ifndef NATIVE_H
#define NATIVE_H

#include "../virt_hook.h"

/* Ends the test with the place and what does not hold. */
#define CHECK(condition) native_check(condition, #condition, __FILE__, __LINE__)
/* The same for texts, which are shown. */
#define CHECK_TEXT(found, wanted) native_check_text(found, wanted, __FILE__, __LINE__)

void native_check(bool holds, const char *condition, const char *file, int line);
void native_check_text(text found, const char *wanted, const char *file, int line);

/* What hook_config() and hook_invocation() find from now on. */
void native_config(const char *key, const char *value);
void native_invocation(const char *key, const char *value);

/* What pod_annotation(), pod_label(), pod_networks() and pod_default_network() find from now on. `ip` may be "". */
void native_pod_annotation(const char *key, const char *value);
void native_pod_label(const char *key, const char *value);
void native_pod_network(const char *name, const char *ip, const char *mac, bool is_default);

/* The words of the last hook_veto() or hook_fail(), or those of a hook that returned false without them. */
text native_error(void);
/* Whether the last one was a veto. */
bool native_vetoed(void);

#endif
