/* XML: what an edit does not name keeps its bytes. */
#define _POSIX_C_SOURCE 200809L
#include "sdk/native/native.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char DOMAIN[] =
    "<?xml version='1.0'?><!-- <name/> -->\n"
    "<domain type=\"kvm\">\n"
    "  <name>vm</name>\n"
    "  <devices>\n"
    "    <disk type='file'  device='disk'>\n"
    "      <target dev='vda' bus='virtio'/>\n"
    "    </disk>\n"
    "    <disk><target dev='sda' bus='sata'/><alias name='ua-a&amp;b'/></disk>\n"
    "    <disk/>\n"
    "  </devices>\n"
    "  <title><![CDATA[a & ]]>b &lt;c&#x3e;<!-- no --></title>\n"
    "</domain >\n";

const char *hook_describe(void) {
    return "{\"wishes\": {\"config\": [\"key\"], \"pod\": [\"annotations/*\", \"labels/*\", \"network-status/*\", \"default-network\", \"network-info\"]}}";
}

static text domain;

/* Checks that one part of the domain was replaced by another, and starts anew. */
static void check_replaced(const char *before, const char *after, int line) {
    const char *at = strstr(DOMAIN, before);
    CHECK(at != NULL);
    size_t from = (size_t)(at - DOMAIN);
    text wanted = text_replace(text_of(DOMAIN), from, from + strlen(before), text_of(after));
    native_check_text(domain, path_join(wanted), __FILE__, line);
    domain = text_of(DOMAIN);
}

static void values_are_found(void) {
    static const char *const cases[][2] = {
        {"domain/name", "vm"},
        {"/domain/@type", "kvm"},
        {"domain/devices/disk/target/@dev", "vda"},
        {"domain/devices/disk[target/@dev='sda']/target/@bus", "sata"},
        {"domain/devices/disk[2]/target/@dev", "sda"},
        {"domain/devices/disk/alias/@name", "ua-a&b"},
        {"domain/devices/disk[alias/@name='ua-a&b'][target]/alias/@name", "ua-a&b"},
        {"domain/*/disk[@device]/@device", "disk"},
        {"domain/title", "a & b <c>"},
        {"domain/title[text()='a & b <c>']", "a & b <c>"},
        {"domain[title='a & b <c>']/name", "vm"},
    };
    text value;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(xml_value(domain, cases[i][0], &value));
        CHECK_TEXT(value, cases[i][1]);
    }
    CHECK(!xml_value(domain, "domain/devices/disk[2]/@device", &value));
    CHECK(!xml_value(domain, "domain/devices/disk[@type='block']", &value));
    CHECK(!xml_value(domain, "domain/devices/disk/alias[2]/@name", &value));
}

/* Whether a call ends the process, as a path that is none does. */
static bool is_refused(void (*call)(const char *), const char *path) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        call(path);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status);
}

static void find(const char *path) {
    xml_element found;
    xml_find(domain, path, &found);
}

static void next(const char *path) {
    xml_element at = {0};
    xml_next(domain, path, &at);
}

static void value_of(const char *path) {
    text value;
    xml_value(domain, path, &value);
}

static void removal(const char *path) { xml_remove(&domain, path); }

static void set(const char *path) { xml_set(&domain, path, text_of("a")); }

/* Such a path would find nothing in any document. */
static void a_path_with_another_root_is_refused(void) {
    void (*const calls[])(const char *) = {find, next, value_of, removal, set};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(is_refused(calls[i], "devices/disk"));
        CHECK(is_refused(calls[i], "/other/@name"));
        CHECK(!is_refused(calls[i], "/domain/devices/disk"));
    }
    CHECK(!is_refused(find, "*/devices/disk"));
}

/* Another element that the path selects, and that has the value, changes nothing. */
static void the_first_element_is_set(void) {
    text disks = text_of("<domain><disk><driver/></disk><disk><driver queues='4'/></disk></domain>");
    xml_set(&disks, "domain/disk/driver/@queues", text_of("4"));
    CHECK_TEXT(disks, "<domain><disk><driver queues='4'/></disk><disk><driver queues='4'/></disk></domain>");
    text texts = text_of("<a><b/><b>x</b></a>");
    xml_set(&texts, "a/b", text_of("x"));
    CHECK_TEXT(texts, "<a><b>x</b><b>x</b></a>");
}

static void a_text_keeps_children_and_comments(void) {
    static const char *const cases[][3] = {
        {"<a>x<!-- c --><b/>y</a>", "z", "<a>z<!-- c --><b/></a>"},
        {"<a>\n  <b/>\n</a>", "z", "<a>z\n  <b/>\n</a>"},
        {"<a><b/><![CDATA[x]]><c>t</c></a>", "z<", "<a><b/>z&lt;<c>t</c></a>"},
        {"<a><!-- c -->x</a>", "", "<a><!-- c --></a>"},
        {"<a> </a>", "z", "<a>z</a>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text xml = text_of(cases[i][0]);
        xml_set(&xml, "a", text_of(cases[i][1]));
        CHECK_TEXT(xml, cases[i][2]);
    }
}

static void every_element_is_visited_and_can_be_replaced(void) {
    size_t count = 0;
    for (xml_element at = {0}; xml_next(domain, "domain/devices/disk", &at); count++) {
        text disk = text_part(domain, at.start, at.end);
        xml_set(&disk, "disk/driver/@queues", text_of("2"));
        xml_replace(&domain, &at, disk);
    }
    CHECK(count == 3);
    text value;
    CHECK(xml_value(domain, "domain/devices/disk[3]/driver/@queues", &value));
    CHECK(xml_value(domain, "domain/devices/disk[1]/driver/@queues", &value));
    domain = text_of(DOMAIN);
}

static void edits_stay_where_they_are(void) {
    xml_set(&domain, "domain/name", text_of("vm"));
    xml_set(&domain, "domain/title", text_of("a & b <c>"));
    CHECK(!xml_set_if_absent(&domain, "domain/@type", text_of("qemu")));
    CHECK_TEXT(domain, DOMAIN);
    xml_set(&domain, "domain/@type", text_of("a\"'<"));
    check_replaced("\"kvm\"", "\"a&quot;&apos;&lt;\"", __LINE__);
    xml_set(&domain, "domain/devices/disk[3]/@device", text_of("cdrom"));
    check_replaced("<disk/>", "<disk device='cdrom'/>", __LINE__);
    xml_set(&domain, "domain/title", text_of("x"));
    check_replaced("<![CDATA[a & ]]>b &lt;c&#x3e;<!-- no -->", "x<!-- no -->", __LINE__);
    CHECK(xml_remove(&domain, "domain/devices/disk/@device") == 1);
    check_replaced("  device='disk'", "", __LINE__);
    CHECK(xml_remove(&domain, "domain/devices/disk[@type='file']/target") == 1);
    check_replaced("\n      <target dev='vda' bus='virtio'/>", "", __LINE__);
    CHECK(xml_remove(&domain, "domain/devices/disk") == 3 && xml_remove(&domain, "domain/none") == 0);
    text value;
    CHECK(!xml_value(domain, "domain/devices/disk", &value));
    domain = text_of(DOMAIN);
}

static void missing_elements_are_made(void) {
    xml_set(&domain, "domain/devices/watchdog[@model='itco'][alias/@name='ua-w']/@action", text_of("reset"));
    check_replaced("    <disk/>\n",
                   "    <disk/>\n    <watchdog model='itco' action='reset'><alias name='ua-w'/></watchdog>\n", __LINE__);
    xml_set(&domain, "domain/memoryBacking/hugepages/page/@size", text_of("2"));
    check_replaced("</title>\n",
                   "</title>\n  <memoryBacking>\n    <hugepages>\n      <page size='2'/>\n    </hugepages>\n  </memoryBacking>\n",
                   __LINE__);
    const char *path = "domain/devices/tpm[backend/@type='emulator']";
    text tpm = text_of("\n<tpm><backend type='emulator'/></tpm> ");
    CHECK(xml_insert_if_absent(&domain, path, tpm) && !xml_insert_if_absent(&domain, path, tpm));
    check_replaced("    <disk/>\n", "    <disk/>\n    <tpm><backend type='emulator'/></tpm>\n", __LINE__);
}

static void the_schemas_order_is_kept(void) {
    text device = text_of("<hostdev><source><product id='1'/></source></hostdev>");
    xml_insert(&device, "hostdev/source", text_of("<address/>"));
    xml_insert(&device, "hostdev/source", text_of("<vendor/>"));
    xml_insert(&device, "hostdev/source", text_of("<other/>"));
    CHECK_TEXT(device, "<hostdev><source><vendor/><product id='1'/><address/><other/></source></hostdev>");
}

static void json_is_read(void) {
    text vmi = text_of("{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"domain\":{\"cpu\":{\"cores\":2,\"sockets\":3}}},"
                       "\"list\":[{\"name\":\"x]\"}, {\"name\":\"y\"},[]]}");
    text value, list, item = {0}, all = text_of("");
    CHECK(vmi_label(vmi, "a", &value) && text_is(value, "b") && !vmi_label(vmi, "b", &value));
    CHECK(vmi_vcpus(vmi) == 6 && vmi_vcpus(text_of("{}")) == 1);
    CHECK(json_find(vmi, (const char *const[]){"list", NULL}, &list));
    while (json_next(list, &item)) {
        if (json_find(item, (const char *const[]){"name", NULL}, &value)) all = text_join(all, value);
    }
    CHECK_TEXT(all, "x]y");
    text none = {0};
    CHECK(!json_next(text_of("[]"), &none) && !json_next(text_of("{}"), &none));
}

static void facts_about_the_pod_are_given(void) {
    text value, why;
    const pod_network *found;
    pod_network cluster;
    size_t count;
    CHECK(pod_label("rack", false, &value) == POD_NONE && pod_annotation("a", true, &value) == POD_ABSENT);
    CHECK_TEXT(value, "a is not there: give the test a pod with it");
    native_pod_annotation("a", "1");
    native_pod_label("rack", "r7");
    native_pod_network("cbr0", "10.0.0.7", "", true);
    native_pod_network("infra/lab", "192.0.2.10", "02:00:00:00:00:01", false);
    native_pod_network("infra/lab", "", "02:00:00:00:00:02", false);
    CHECK(pod_annotation("a", true, &value) == POD_FACT && text_is(value, "1"));
    CHECK(pod_label("rack", true, &value) == POD_FACT && text_is(value, "r7"));
    CHECK(pod_label("a", false, &value) == POD_NONE && pod_network_info(false, &value) == POD_NONE);
    CHECK(pod_networks("infra/lab", true, &found, &count, &why) == POD_FACT && count == 2);
    CHECK(found[0].ip_count == 1 && text_is(found[0].ips[0], "192.0.2.10") && found[1].ip_count == 0);
    CHECK(pod_networks("lab", false, &found, &count, &why) == POD_NONE && count == 0);
    native_pod_network("infra/wan", "", "", false);
    native_pod_network("infra/lab", "", "", false);
    native_invocation("namespace", "infra");
    CHECK(pod_networks("lab", true, &found, &count, &why) == POD_FACT && count == 3);
    CHECK(pod_default_network(true, &cluster, &why) == POD_FACT && text_is(cluster.name, "cbr0"));
}

int main(void) {
    domain = text_of(DOMAIN);
    values_are_found();
    a_path_with_another_root_is_refused();
    the_first_element_is_set();
    a_text_keeps_children_and_comments();
    every_element_is_visited_and_can_be_replaced();
    edits_stay_where_they_are();
    missing_elements_are_made();
    the_schemas_order_is_kept();
    json_is_read();
    facts_about_the_pod_are_given();
    return 0;
}
