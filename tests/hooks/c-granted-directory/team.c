/* The title of a domain is the team of its namespace, from a file of a granted directory. */
#include <stdio.h>

#include "sdk/virt_hook.h"

/* A variable for the test. */
const char *teams = "/etc/teams";

const char *hook_describe(void) {
    return "{\"name\": \"team\", \"version\": \"0.1.0\", \"hookPoints\": [{\"name\": \"OnDefineDomain\"}],"
           " \"wishes\": {\"paths\": [\"/domain/title\"], \"dirs\": [\"/etc/teams\"]}}";
}

bool hook_on_define_domain(text vmi, text *domain) {
    text namespace;
    if (!json_find(vmi, (const char *[]){"metadata", "namespace", NULL}, &namespace)) return true;
    /* Like all texts of the SDK, it ends in a zero byte. */
    text path = text_join(text_of(teams), text_of("/"), namespace);
    static char content[256];
    FILE *file = fopen(path.bytes, "r");
    if (!file) return hook_fail(text_join(path, text_of(" cannot be read")));
    content[fread(content, 1, sizeof content - 1, file)] = 0;
    fclose(file);
    /* The first line of the file of the VM's namespace. */
    text team = text_of(content), rest;
    text_cut(team, "\n", &team, &rest);
    xml_set(domain, "domain/title", team);
    return true;
}
