/* Calls a recipe. */
#include "recipes.h"

const char *hook_describe(void) {
    /* Everything, and by name what no wildcard covers. */
    return "{\"name\": \"recipes\", \"version\": \"0.1.0\","
           " \"hookPoints\": [{\"name\": \"OnDefineDomain\"}, {\"name\": \"PreMigrationSource\"}],"
           " \"wishes\": {\"paths\": [\"/domain/**\", \"/domain/sysinfo[@type='fwcfg']/**\", \"/domain/qemu:commandline/**\", \"/domain/devices/shmem/@name\","
           " \"/domain/devices/hostdev[@type='usb']/**\","
           " \"/domain/devices/hostdev[@type='pci']/**\","
           " \"/domain/devices/hostdev[@type='mdev']/@display\", \"/domain/devices/hostdev[@type='mdev']/@ramfb\"],"
           " \"migration\": [\"bandwidth\"], \"pod\": [\"annotations/example.com/disk-iops\"]}}";
}

bool hook_on_define_domain(text vmi, text *domain) {
    text recipe;
    if (!vmi_annotation(vmi, "recipe", &recipe)) return hook_fail(text_of("which recipe?"));
#define CALL(name) if (text_is(recipe, #name)) return name(vmi, domain);
    RECIPES(CALL)
    return hook_fail(text_join(text_of("there is no recipe "), recipe));
}

/* Limits a migration, and refuses one that has no limit of the downtime. */
bool hook_pre_migration_source(text vmi, migration_parameters *migration) {
    (void)vmi;
    text *bandwidth = migration_value(migration, "bandwidth");
    text *downtime = migration_value(migration, "max-downtime");
    if (!bandwidth || migration_value(migration, "unknown")) return hook_fail(text_of("no bandwidth"));
    if (downtime && text_is(*downtime, "2000000")) return hook_veto(text_of("too long in C"));
    if (text_is(*bandwidth, "0")) *bandwidth = text_of_number(64u << 20);
    return true;
}
