/* Runs natively: make native. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "sdk/native/native.h"

extern const char *teams;

int main(void) {
    static char directory[] = "/tmp/teams-XXXXXX";
    CHECK(mkdtemp(directory));
    teams = directory;
    text path = text_join(text_of(directory), text_of("/shop"));
    FILE *file = fopen(path.bytes, "w");
    CHECK(file && fputs("storage\n", file) >= 0 && fclose(file) == 0);

    text domain = text_of("<domain/>");
    CHECK(native_edit(hook_on_define_domain, text_of("{\"metadata\": {\"namespace\": \"shop\"}}"), &domain));
    CHECK_TEXT(domain, "<domain><title>storage</title></domain>");
    CHECK(remove(path.bytes) == 0 && remove(directory) == 0);
    return 0;
}
