/*
 * The gateway's configuration: values, the order of its sources, and errors that say where.
 */
#include <pekoe/server.h>

#include "gateway/config.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gateway_error error;

static gateway_config *load(char *const *arguments, char *const *environment)
{
    gateway_config *config = NULL;
    error.text[0] = '\0';
    return gateway_config_load(&config, arguments, environment, &error) == 0 ? config : NULL;
}

static gateway_config *parse(const char *text)
{
    gateway_config *config = NULL;
    error.text[0] = '\0';
    int r = gateway_config_parse(&config, "file", text, strlen(text), &error);
    return r == 0 ? config : NULL;
}

/* ---- Values ---- */

Test(gateway_config, times_and_sizes_have_units)
{
    static const struct {
        const char *text;
        uint32_t ms; /* 0: refused */
    } times[] = {{"250ms", 250},
                 {"30s", 30000},
                 {"5m", 300000},
                 {"2h", 7200000},
                 {"never", PK_NEVER},
                 {"5", 0},
                 {"", 0},
                 {"5 s", 0},
                 {"-5s", 0},
                 {"s", 0},
                 {"1.5s", 0},
                 {"1193h", 4294800000},
                 {"1194h", 0},
                 {"99999999999999999999s", 0},
                 {"5sec", 0}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        uint32_t ms = 0;
        const char *wrong = gateway_parse_time(times[i].text, &ms);
        cr_assert_eq(wrong == NULL, times[i].ms != 0, "%s", times[i].text);
        cr_assert_eq(ms, times[i].ms, "%s", times[i].text);
    }
    static const struct {
        const char *text;
        size_t bytes;
    } sizes[] = {{"1", 1},         {"65536", 65536},
                 {"64K", 65536},   {"4M", 4194304},
                 {"3g", 3u << 30}, {"4G", 0},
                 {"0", 0},         {"K", 0},
                 {"64KB", 0},      {"4294967295", 4294967295u},
                 {"4294967296", 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = 0;
        const char *wrong = gateway_parse_size(sizes[i].text, &bytes);
        cr_assert_eq(wrong == NULL, sizes[i].bytes != 0, "%s", sizes[i].text);
        cr_assert_eq(bytes, sizes[i].bytes, "%s", sizes[i].text);
    }
}

Test(gateway_config, addresses_and_origins_are_told_from_others)
{
    static const char *const right[] = {"127.0.0.1:80",    ":0",          "[::1]:8080",
                                        "localhost:65535", "unix:/run/x", NULL};
    static const char *const wrong[] = {"",       "127.0.0.1",  "host:",   "host:65536",
                                        "host:x", "::1:80",     "[::1]",   "unix:x",
                                        "a b:80", "http://a:1", "a:1,b:2", NULL};
    for (const char *const *one = right; *one; one++)
        cr_assert_null(gateway_check_address(*one), "%s", *one);
    for (const char *const *one = wrong; *one; one++)
        cr_assert_not_null(gateway_check_address(*one), "%s", *one);
    static const char *const origins[] = {"*",
                                          "null",
                                          "https://shop.example",
                                          "http://a:8080",
                                          "http://a:443",
                                          "https://a:80",
                                          "http://[::1]:8080",
                                          "http://[::1]",
                                          "app+x-1.y://a",
                                          NULL};
    static const char *const others[] = {"",
                                         "shop.example",
                                         "https://",
                                         "https://a/",
                                         "://a",
                                         "http://a b",
                                         "http://\xc3\xbc",
                                         "https://Shop.example",
                                         "HTTPS://a",
                                         "https://a:443",
                                         "http://a:80",
                                         "https://*.example",
                                         "https://a?b",
                                         "https://a#b",
                                         "https://u@a",
                                         "http://a:",
                                         "http://[::1",
                                         NULL};
    for (const char *const *one = origins; *one; one++)
        cr_assert_null(gateway_check_origin(*one), "%s", *one);
    for (const char *const *one = others; *one; one++)
        cr_assert_not_null(gateway_check_origin(*one), "%s", *one);
}

Test(gateway_config, upstreams_become_targets_of_channels)
{
    static const struct {
        const char *text, *prefix;
        const char *targets[4];
    } cases[] = {
        {"127.0.0.1:1", "/", {"ipv4:127.0.0.1:1"}},
        {"127.0.0.1:1, 127.0.0.2:2", "/", {"ipv4:127.0.0.1:1,127.0.0.2:2"}},
        {"/a.B/=host:1", "/a.B/", {"dns:///host:1"}},
        {"/a.B/ = host:1,other:2", "/a.B/", {"dns:///host:1", "dns:///other:2"}},
        {"/=[::1]:1,[::2]:2,1.2.3.4:5", "/", {"ipv6:[::1]:1,[::2]:2", "ipv4:1.2.3.4:5"}},
        {"unix:/run/a,unix:/run/b", "/", {"unix:/run/a", "unix:/run/b"}},
        {"dns:///host:1", "/", {"dns:///host:1"}},
        {"/a/=tls://host:1,other:2", "/a/", {"dns:///host:1", "dns:///other:2"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gateway_upstream_rule rule;
        cr_assert_null(gateway_parse_upstream(cases[i].text, &rule), "%s", cases[i].text);
        cr_assert_str_eq(rule.prefix, cases[i].prefix);
        cr_assert_eq(rule.tls, strstr(cases[i].text, "tls://") != NULL);
        for (size_t k = 0; k < 4 && cases[i].targets[k]; k++) {
            cr_assert_lt(k, rule.targets.count, "%s", cases[i].text);
            cr_assert_str_eq(rule.targets.items[k], cases[i].targets[k]);
        }
        gateway_upstream_rule_done(&rule);
    }
    static const char *const wrong[] = {"",       "host",       ":1",      "a:1,",        ",a:1",
                                        "/a.B/",  "/x=",        "a:1 b:2", "/a b/=a:1",   "a:70000",
                                        "unix:x", "http://a:1", "1.2.3:4", "1.2.3.4.5:6", "[::g]:1",
                                        "[]:1",   NULL};
    gateway_upstream_rule rule;
    for (const char *const *one = wrong; *one; one++)
        cr_assert_not_null(gateway_parse_upstream(*one, &rule), "%s", *one);
}

/* ---- The file ---- */

Test(gateway_config, a_file_sets_keys_and_leaves_defaults)
{
    gateway_config *config = parse("# a comment\r\n\n  listen = :1\nlisten=:2\n"
                                   "upstream = /a/ = host:1\nmessage-limit = 1M\n"
                                   "cors-credentials = yes\nforward-header = Cookie\n"
                                   "access-log-format = json\naccess-log = off\n"
                                   "drain-timeout = 0s");
    cr_assert_not_null(config, "%s", error.text);
    cr_assert_eq(config->listen.count, 2);
    cr_assert_str_eq(config->listen.items[1], ":2");
    cr_assert_eq(config->message_limit, 1 << 20);
    cr_assert(config->cors_credentials);
    cr_assert_str_eq(config->forward_headers.items[0], "cookie");
    cr_assert_eq(config->access_log_format, GATEWAY_LOG_JSON);
    cr_assert_null(config->access_log);
    cr_assert_eq(config->threads, 1);
    cr_assert_eq(config->drain_timeout_ms, 0, "nothing is waited for");
    cr_assert_eq(config->header_timeout_ms, 10000);
    cr_assert_null(gateway_config_unref(config));
}

Test(gateway_config, an_error_names_its_place)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no upstream is given (--upstream host:port)"},
        {"upstream = a:1\ntimeout = 5\n",
         "file:2: timeout \"5\": a time wants a unit: ms, s, m or h"},
        {"idle-timeout = 0s", "file:1: idle-timeout \"0s\": more than no time is wanted; never is "
                              "without end"},
        {"cors-max-age = 0ms",
         "file:1: cors-max-age \"0ms\": more than no time is wanted; never is "
         "without end"},
        {"nonsense", "file:1: \"key = value\" is wanted"},
        {"\n\nlissen = :1", "file:3: there is no key \"lissen\""},
        {"config = x", "file:1: there is no key \"config\""},
        {"help = on", "file:1: there is no key \"help\""},
        {"timeout = 1s\ntimeout = 2s", "file:2: timeout is set twice"},
        {"upstream = a:1\nupstream = b:1", "upstream \"b:1\": the prefix is given twice"},
        {"upstream = /=a:1\nupstream = b:1", "upstream \"b:1\": the prefix is given twice"},
        {"upstream = a:1\nupstream = / = b:1", "upstream \"/ = b:1\": the prefix is given twice"},
        {"upstream = /a/=a:1\nupstream = /a/ =b:1",
         "upstream \"/a/ =b:1\": the prefix is given twice"},
        {"threads = 0", "file:1: threads \"0\": the number is out of range"},
        {"static =", "file:1: static \"\": a value is wanted"},
        {"upstream = a:1\nstatic-listen = :1", "static-listen is given, but no folder (--static)"},
        {"upstream = a:1\nlisten = :1\nlisten = :2\nlisten = :1",
         "listen \":1\": the address is given twice"},
        {"upstream = a:1\nlisten = :1\nlisten-tls = :1\ntls-cert = x\ntls-key = x",
         "listen-tls \":1\": the address is given twice"},
        {"upstream = a:1\nlisten-tls = :1", "listen-tls is given, but not tls-cert and tls-key"},
        {"upstream = a:1\ntls-cert = x", "certificates are given, but no address (--listen-tls)"},
        {"upstream = a:1\nupstream-ca = x",
         "upstream-ca is given, but no upstream with TLS (tls://)"},
        {"upstream = a:1\nupstream-cert = x\nupstream-key = x",
         "upstream-cert is given, but no upstream with TLS (tls://)"},
        {"upstream = /a=a:1\nupstream-name = x",
         "upstream-name is given, but no upstream with TLS (tls://)"},
        {"upstream = a:0", "file:1: upstream \"a:0\": an upstream wants a port above 0"},
        {"authority = a b", "file:1: authority \"a b\": an authority is host[:port] in US-ASCII"},
        {"authority = http://a",
         "file:1: authority \"http://a\": an authority is host[:port] in US-ASCII"},
        {"drop-header = a b", "file:1: drop-header \"a b\": that is no name of a field"},
        {"access-log-format = xml", "file:1: access-log-format \"xml\": text or json is wanted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_null(parse(cases[i].text), "%s", cases[i].text);
        cr_assert_str_eq(error.text, cases[i].message);
    }
    static char line[10000];
    memset(line, 'x', sizeof line - 1);
    cr_assert_null(parse(line));
    cr_assert_str_eq(error.text, "file:1: the line is too long");
    gateway_config *config;
    cr_assert_eq(gateway_config_parse(&config, "file", "a\0b", 3, &error), PK_ERR_INVALID);
    cr_assert_str_eq(error.text, "file:1: there is a NUL in the line");
}

/* ---- The order of the sources ---- */

Test(gateway_config, flags_stand_above_the_environment_and_that_above_the_file)
{
    char name[] = "/tmp/gateway-config-XXXXXX";
    int fd = mkstemp(name);
    static const char text[] = "upstream = file:1\ntimeout = 1s\nidle-timeout = 1m\n"
                               "cors-origin = http://file\nthreads = 2\n";
    cr_assert_eq(write(fd, text, sizeof text - 1), (ssize_t) sizeof text - 1);
    close(fd);
    char variable[100];
    snprintf(variable, sizeof variable, "PEKOE_GATEWAY_CONFIG=%s", name);
    char *environment[] = {(char *) "HOME=/",
                           variable,
                           (char *) "PEKOE_GATEWAY_TIMEOUT=2s",
                           (char *) "PEKOE_GATEWAY_CORS_ORIGIN=http://a http://b",
                           (char *) "PEKOE_GATEWAY_THREADS=3",
                           (char *) "PEKOE_GATEWAY_IDLE_TIMEOUT=",
                           (char *) "PEKOE_GATEWAY_UPSTREAM=",
                           NULL};
    char *arguments[] = {(char *) "--threads",
                         (char *) "4",
                         (char *) "--cors-credentials",
                         (char *) "--listen=:1",
                         (char *) "--listen",
                         (char *) ":2",
                         NULL};
    gateway_config *config = load(arguments, environment);
    cr_assert_not_null(config, "%s", error.text);
    cr_assert_str_eq(config->upstreams.items[0], "file:1");
    cr_assert_eq(config->idle_timeout_ms, 60000);
    cr_assert_eq(config->timeout_ms, 2000);
    cr_assert_eq(config->cors_origins.count, 2, "a list replaces that below it");
    cr_assert_str_eq(config->cors_origins.items[0], "http://a");
    cr_assert_eq(config->threads, 4);
    cr_assert(config->cors_credentials);
    cr_assert_eq(config->listen.count, 2);
    gateway_config_unref(config);
    unlink(name);
}

Test(gateway_config, wrong_flags_are_named)
{
    static const struct {
        const char *arguments[4];
        const char *message;
    } cases[] = {
        {{"--lissen=:1"}, "there is no flag \"--lissen=:1\"; --help shows those that there are"},
        {{"extra"}, "there is no flag \"extra\"; --help shows those that there are"},
        {{"--timeout"}, "--timeout wants a value: TIME"},
        {{"--check=1"}, "--check takes no value"},
        {{"--timeout=1s", "--timeout=1s"}, "the command line: timeout is set twice"},
        {{"--config=/nowhere/x"}, "/nowhere/x: No such file or directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_null(load((char *const *) (uintptr_t) cases[i].arguments, NULL));
        cr_assert_str_eq(error.text, cases[i].message);
    }
    char *variables[] = {(char *) "PEKOE_GATEWAY_TIMEOUT=soon", NULL};
    char *nothing[] = {NULL};
    cr_assert_null(load(nothing, variables));
    cr_assert_str_eq(error.text,
                     "the environment: timeout \"soon\": a time such as 500ms, 30s, 5m or 2h is "
                     "wanted");
    char *help[] = {(char *) "-h", NULL};
    gateway_config *config = load(help, NULL);
    cr_assert(config && config->help, "help needs no upstream");
    gateway_config_unref(config);
}

Test(gateway_config, a_change_that_needs_a_restart_is_seen)
{
    gateway_config *one = parse("upstream = a:1\nthreads = 2");
    gateway_config *same = parse("upstream = b:1\nthreads = 2\ntimeout = 1s");
    gateway_config *other = parse("upstream = a:1\nthreads = 2\nadmin = :1");
    cr_assert_null(gateway_config_fixed_change(one, same));
    cr_assert_str_eq(gateway_config_fixed_change(one, other), "admin");
    gateway_config_unref(one);
    gateway_config_unref(same);
    gateway_config_unref(other);
}
