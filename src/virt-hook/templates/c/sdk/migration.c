/* The parameters of a migration. */
#include "virt_hook.h"

text *migration_value(const migration_parameters *migration, const char *name) {
    for (size_t i = 0; i < migration->count; i++) {
        if (text_is(migration->items[i].name, name)) return &migration->items[i].value;
    }
    return NULL;
}
