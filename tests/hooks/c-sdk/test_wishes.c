/* Native tests refuse what the host would refuse, because the hook does not declare it. */
#define _POSIX_C_SOURCE 200809L
#include "sdk/native/native.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char DOMAIN[] = "<domain><name>vm</name><devices>\n"
                             "  <disk type='file'><target dev='vda'/><driver io='native'/></disk>\n"
                             "  <disk type='file'><target dev='vdb'/><driver io='threads'/></disk>\n"
                             "</devices></domain>";

static const char *wishes = "";

const char *hook_describe(void) { return text_join(text_of("{\"wishes\": {"), text_of(wishes), text_of("}}")).bytes; }

static bool title(text vmi, text *xml) { return (void)vmi, xml_set(xml, "domain/title", text_of("a")), true; }

static bool queues(text vmi, text *xml) {
    return (void)vmi, xml_set(xml, "domain/devices/disk[target/@dev='vdb']/driver/@queues", text_of("2")), true;
}

static bool watchdog(text vmi, text *xml) {
    text device = text_of("<watchdog model='itco'><alias name='ua-w'/></watchdog>");
    return (void)vmi, xml_insert_if_absent(xml, "domain/devices/watchdog", device), true;
}

static bool pin(text vmi, text *xml) {
    return (void)vmi, xml_set(xml, "domain/cputune/iothreadpin[@iothread='1']/@cpuset", text_of("3")), true;
}

static bool removal(text vmi, text *xml) {
    return (void)vmi, xml_remove(xml, "domain/devices/disk[target/@dev='vdb']"), true;
}

static bool grows(text vmi, text *xml) { return (void)vmi, xml_insert(xml, "domain", text_of("<title/>")), true; }

static bool cache(text vmi, text *xml) { return (void)vmi, xml_set(xml, "disk/driver/@cache", text_of("none")), true; }

static bool reads(text vmi, text *xml) { return (void)vmi, (void)xml, native_config("b", "1"), true; }

/* Runs an edit in a process of its own, and checks that it passes, or what it ends with. */
static void check_edit(bool (*edit)(text, text *), const char *xml, const char *paths, const char *missing, int line) {
    int pipes[2], status;
    char printed[4096] = "";
    CHECK(pipe(pipes) == 0);
    wishes = paths;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        text given = text_of(xml);
        _exit(native_edit(edit, text_of("{}"), &given) ? 0 : 2);
    }
    close(pipes[1]);
    CHECK(read(pipes[0], printed, sizeof printed - 1) >= 0);
    waitpid(child, &status, 0);
    close(pipes[0]);
    bool as_expected = missing ? strstr(printed, missing) && WEXITSTATUS(status) == 1 : status == 0;
    if (!as_expected) fprintf(stderr, "line %d: %s\n", line, printed);
    CHECK(as_expected);
}

#define PASSES(edit, paths) check_edit(edit, DOMAIN, "\"paths\": [" paths "]", NULL, __LINE__)
#define DENIED(edit, paths, wish) check_edit(edit, DOMAIN, "\"paths\": [" paths "]", "\"paths\": " wish "\n", __LINE__)

int main(void) {
    DENIED(title, "", "/domain/title");
    PASSES(title, "\"/domain/title\"");
    PASSES(title, "\"/domain/other\", \"/domain/**\"");
    DENIED(watchdog, "", "/domain/devices/watchdog/**");
    DENIED(watchdog, "\"/domain/devices/watchdog\"", "/domain/devices/watchdog/**");
    DENIED(watchdog, "\"/domain/devices/*\", \"/domain/devices/watchdog/alias\"", "/domain/devices/watchdog/**");
    PASSES(watchdog, "\"/domain/devices/watchdog\", \"/domain/devices/watchdog/alias\"");
    PASSES(pin, "\"/domain/cputune/iothreadpin\"");
    DENIED(pin, "\"/domain/cputune/shares\"", "/domain/cputune/**");
    PASSES(queues, "\"/domain/title\", {\"path\": \"/domain/devices/disk/driver/@queues\", \"at-most\": 4}");
    DENIED(queues, "{\"path\": \"/domain/devices/disk/driver/@io\", \"one-of\": [\"a\"]}", "/domain/devices/disk/driver/@queues");
    check_edit(queues, DOMAIN, "\"paths\": [{\"at-most\": 4}]", "a wish has no \"path\"", __LINE__);
    PASSES(watchdog, "\"/domain/devices/watchdog/**\"");
    PASSES(queues, "\"/domain/devices/disk[target/@dev='vdb']/driver/@queues\"");
    PASSES(queues, "\"/domain/devices/disk[2]/driver/@*\"");
    PASSES(queues, "\"/domain/devices/*/*/@queues\"");
    PASSES(queues, "\"/domain/devices/**/driver/**\"");
    DENIED(queues, "\"/domain/devices/disk[target/@dev='vda']/driver/@queues\"", "/domain/devices/disk/driver/@queues");
    PASSES(queues, "\"/domain/devices/disk/driver\"");
    DENIED(queues, "\"/domain/devices/disk/*\"", "/domain/devices/disk/driver/@queues");
    DENIED(queues, "\"/domain/devices/disk[1]/**\"", "/domain/devices/disk/driver/@queues");
    DENIED(removal, "\"/domain/devices\"", "/domain/devices/disk/**");
    PASSES(removal, "\"/domain/devices/disk[target/@dev='vdb']/**\"");
    check_edit(grows, DOMAIN, "\"paths\": [\"/domain/title\"]", "a second run changes", __LINE__);
    const char *device = "<?xml version='1.0'?><disk><driver name='qemu'/></disk>";
    check_edit(cache, device, "\"paths\": [\"/domain/devices/disk/driver/@cache\"]", NULL, __LINE__);
    check_edit(cache, device, "", "/domain/devices/disk/driver/@cache\n", __LINE__);

    check_edit(reads, DOMAIN, "\"config\": [\"b\"]", NULL, __LINE__);
    check_edit(reads, DOMAIN, "\"config\": [\"a\"]", "the configuration key b", __LINE__);
    wishes = "\"pod\": [\"labels/a*z\", \"network-info\"]";
    native_pod_label("abz", "1");
    native_pod_label("b", "1");
    text value;
    CHECK(pod_label("abz", true, &value) == POD_FACT);
    CHECK(pod_label("b", true, &value) == POD_DENIED);
    CHECK_TEXT(value, "labels/b is missing in \"pod\" of the wishes");
    CHECK(pod_network_info(false, &value) == POD_NONE);
    CHECK(pod_default_network(false, &(pod_network){0}, &value) == POD_DENIED);
    return 0;
}
