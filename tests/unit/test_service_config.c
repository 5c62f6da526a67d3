/*
 * Service configs: what gRFC A2 and A6 and google.protobuf's JSON allow, what they refuse and with
 * which field, and which config a method gets.
 */
#include "handlers/service_config.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static pk_service_config *read(const char *json)
{
    char problem[200] = "";
    pk_service_config *config = NULL;
    int r = pk_service_config_new(&config, json, problem, sizeof problem);
    cr_assert_eq(r, 0, "%s: %s", json, problem);
    return config;
}

static void expect_problem(const char *json, const char *expected)
{
    char problem[200] = "";
    pk_service_config *config = NULL;
    int r = pk_service_config_new(&config, json, problem, sizeof problem);
    cr_assert_eq(r, PK_ERR_INVALID, "%s", json);
    cr_assert_null(config);
    cr_assert_str_eq(problem, expected, "%s: %s", json, problem);
}

Test(service_config, all_fields_are_read)
{
    pk_service_config *config = read(
        "{\"methodConfig\": [{\"name\": [{\"service\": \"a.B\"}], \"timeout\": \"1.5s\","
        "\"waitForReady\": true, \"maxRequestMessageBytes\": 100,"
        "\"maxResponseMessageBytes\": \"200\", \"retryPolicy\": {\"maxAttempts\": 7,"
        "\"initialBackoff\": \".1s\", \"maxBackoff\": \"2s\", \"backoffMultiplier\": 1.5,"
        "\"retryableStatusCodes\": [\"UNAVAILABLE\", \"aborted\", 8]}},"
        "{\"name\": [{}], \"hedgingPolicy\": {\"maxAttempts\": 3, \"hedgingDelay\": \"0.0001s\","
        "\"nonFatalStatusCodes\": [\"INTERNAL\"]}}],"
        "\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.1239},"
        "\"loadBalancingConfig\": [{\"xds\": {}}, {\"round_robin\": {}}, {\"pick_first\": {}}],"
        "\"healthCheckConfig\": {\"serviceName\": \"x\"}}");
    const pk_method_config *one = pk_service_config_find(config, "/a.B/C");
    cr_assert_eq(one->timeout, 1500000000);
    cr_assert(one->wait_for_ready);
    cr_assert_eq(one->request_limit, 100);
    cr_assert_eq(one->response_limit, 200);
    cr_assert(one->retries && !one->hedges);
    cr_assert_eq(one->retry.max_attempts, 7);
    cr_assert_eq(one->retry.initial_backoff_ms, 100);
    cr_assert_eq(one->retry.max_backoff_ms, 2000);
    cr_assert_float_eq(one->retry.backoff_multiplier, 1.5, 1e-9);
    cr_assert_eq(one->retry.codes, PK_CODE_BIT(PK_UNAVAILABLE) | PK_CODE_BIT(PK_ABORTED) |
                                       PK_CODE_BIT(PK_RESOURCE_EXHAUSTED));
    const pk_method_config *other = pk_service_config_find(config, "/a.C/C");
    cr_assert(other->hedges && !other->retries);
    cr_assert_eq(other->hedging.max_attempts, 3);
    cr_assert_eq(other->hedging.delay_ms, 1); /* rounded up */
    cr_assert_eq(other->hedging.codes, PK_CODE_BIT(PK_INTERNAL));
    cr_assert_float_eq(config->throttling.max_tokens, 10, 1e-9);
    cr_assert_float_eq(config->throttling.token_ratio, 0.123, 1e-9); /* three decimals */
    cr_assert_str_eq(config->load_balancing, "round_robin");
    pk_service_config_free(config);
}

Test(service_config, what_is_absent_null_or_unknown_is_nothing)
{
    static const char *const texts[] = {
        "{}",
        "{\"methodConfig\": null, \"loadBalancingPolicy\": null, \"retryThrottling\": null}",
        "{\"methodConfig\": [], \"futureField\": {\"a\": [1, 2]}}",
        "{\"methodConfig\": [{}]}",
        "{\"methodConfig\": [{\"name\": [], \"timeout\": null, \"retryPolicy\": null, \"x\": 1}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pk_service_config *config = read(texts[i]);
        cr_assert_null(pk_service_config_find(config, "/a.B/C"));
        cr_assert_null(config->load_balancing);
        cr_assert_float_eq(config->throttling.max_tokens, 0, 0);
        pk_service_config_free(config);
    }
    cr_assert_null(pk_service_config_free(NULL));
}

Test(service_config, the_closest_name_counts)
{
    pk_service_config *config =
        read("{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"1s\"},"
             "{\"name\": [{\"service\": \"a.B\"}], \"timeout\": \"2s\"},"
             "{\"name\": [{\"service\": \"a.B\", \"method\": \"C\"},"
             "{\"service\": \"a.D\", \"method\": \"\"}], \"timeout\": \"3s\"}]}");
    const struct {
        const char *path;
        unsigned seconds;
    } rows[] = {{"/a.B/C", 3}, {"/a.B/D", 2}, {"/a.D/x", 3}, {"/a.BB/C", 1}, {"/x/y", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pk_method_config *found = pk_service_config_find(config, rows[i].path);
        cr_assert_eq(found->timeout, rows[i].seconds * UINT64_C(1000000000), "%s", rows[i].path);
    }
    pk_service_config_free(config);
}

Test(service_config, older_names_of_policies_are_read_in_any_case)
{
    static const char *const texts[][2] = {
        {"{\"loadBalancingPolicy\": \"ROUND_ROBIN\"}", "round_robin"},
        {"{\"loadBalancingPolicy\": \"pick_first\"}", "pick_first"},
        {"{\"loadBalancingPolicy\": \"round_robin\", \"loadBalancingConfig\":"
         "[{\"pick_first\": {\"shuffleAddressList\": false}}]}",
         "pick_first"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        pk_service_config *config = read(texts[i][0]);
        cr_assert_str_eq(config->load_balancing, texts[i][1]);
        pk_service_config_free(config);
    }
}

#define METHOD(inside) "{\"methodConfig\": [{" inside "}]}"
#define RETRY(attempts, initial, longest, multiplier, codes) \
    METHOD("\"retryPolicy\": {" attempts initial longest multiplier codes "\"x\": 0}")
#define ATTEMPTS "\"maxAttempts\": 2,"
#define INITIAL "\"initialBackoff\": \"1s\","
#define LONGEST "\"maxBackoff\": \"1s\","
#define MULTIPLIER "\"backoffMultiplier\": 1,"
#define CODES "\"retryableStatusCodes\": [14],"
#define HEDGING(inside) METHOD("\"hedgingPolicy\": {" inside "}")

Test(service_config, what_is_wrong_is_told_with_the_field)
{
    static const char *const rows[][2] = {
        {"[]", "a service config must be an object"},
        {"{\"methodConfig\": {}}", "methodConfig: must be an array"},
        {"{\"methodConfig\": [1]}", "methodConfig[0]: must be an object"},
        {METHOD("\"name\": {}"), "methodConfig[0].name: must be an array"},
        {METHOD("\"name\": [7]"), "methodConfig[0].name[0]: must be an object"},
        {METHOD("\"name\": [{\"service\": 1}]"),
         "methodConfig[0].name[0].service: must be a string"},
        {METHOD("\"name\": [{\"method\": \"C\"}]"),
         "methodConfig[0].name[0].method: has no service"},
        {METHOD("\"name\": [{\"service\": \"a\"}, {\"service\": \"a\"}]"),
         "methodConfig[0].name[1]: has been named before"},
        {METHOD("\"name\": [{}, {}]"), "methodConfig[0].name[1]: has been named before"},
        {METHOD("\"timeout\": 1"), "methodConfig[0].timeout: must be a string such as \"1.5s\""},
        {METHOD("\"timeout\": \"1\""),
         "methodConfig[0].timeout: must be seconds, not negative, such as \"1.5s\""},
        {METHOD("\"timeout\": \"-1s\""),
         "methodConfig[0].timeout: must be seconds, not negative, such as \"1.5s\""},
        {METHOD("\"timeout\": \"1.0000000001s\""),
         "methodConfig[0].timeout: must be seconds, not negative, such as \"1.5s\""},
        {METHOD("\"timeout\": \"s\""),
         "methodConfig[0].timeout: must be seconds, not negative, such as \"1.5s\""},
        {METHOD("\"timeout\": \"315576000001s\""),
         "methodConfig[0].timeout: must be at most 315576000000s"},
        {METHOD("\"waitForReady\": 1"), "methodConfig[0].waitForReady: must be true or false"},
        {METHOD("\"maxRequestMessageBytes\": -1"),
         "methodConfig[0].maxRequestMessageBytes: must be a number of bytes, at most 4294967295"},
        {METHOD("\"maxResponseMessageBytes\": \"1k\""),
         "methodConfig[0].maxResponseMessageBytes: must be a number of bytes, at most 4294967295"},
        {METHOD("\"maxResponseMessageBytes\": 4294967296"),
         "methodConfig[0].maxResponseMessageBytes: must be a number of bytes, at most 4294967295"},
        {RETRY("", INITIAL, LONGEST, MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.maxAttempts: is required"},
        {RETRY("\"maxAttempts\": 1,", INITIAL, LONGEST, MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.maxAttempts: must be at least 2"},
        {RETRY("\"maxAttempts\": 2.5,", INITIAL, LONGEST, MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.maxAttempts: must be a whole number"},
        {RETRY(ATTEMPTS, "", LONGEST, MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.initialBackoff: is required"},
        {RETRY(ATTEMPTS, "\"initialBackoff\": \"0s\",", LONGEST, MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.initialBackoff: must be more than 0"},
        {RETRY(ATTEMPTS, INITIAL, "", MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.maxBackoff: is required"},
        {RETRY(ATTEMPTS, INITIAL, "\"maxBackoff\": \"0.0s\",", MULTIPLIER, CODES),
         "methodConfig[0].retryPolicy.maxBackoff: must be more than 0"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, "", CODES),
         "methodConfig[0].retryPolicy.backoffMultiplier: is required"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, "\"backoffMultiplier\": 0,", CODES),
         "methodConfig[0].retryPolicy.backoffMultiplier: must be more than 0"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, "\"backoffMultiplier\": \"2\",", CODES),
         "methodConfig[0].retryPolicy.backoffMultiplier: must be a number"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, MULTIPLIER, ""),
         "methodConfig[0].retryPolicy.retryableStatusCodes: is required"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, MULTIPLIER, "\"retryableStatusCodes\": [],"),
         "methodConfig[0].retryPolicy.retryableStatusCodes: must not be empty"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, MULTIPLIER, "\"retryableStatusCodes\": [1, \"DOWN\"],"),
         "methodConfig[0].retryPolicy.retryableStatusCodes[1]: \"DOWN\" is no status code"},
        {RETRY(ATTEMPTS, INITIAL, LONGEST, MULTIPLIER, "\"retryableStatusCodes\": [17],"),
         "methodConfig[0].retryPolicy.retryableStatusCodes[0]: must be the name of a status code"},
        {METHOD("\"retryPolicy\": []"), "methodConfig[0].retryPolicy: must be an object"},
        {HEDGING(""), "methodConfig[0].hedgingPolicy.maxAttempts: is required"},
        {HEDGING("\"maxAttempts\": 1"),
         "methodConfig[0].hedgingPolicy.maxAttempts: must be at least 2"},
        {HEDGING("\"maxAttempts\": 2, \"hedgingDelay\": 5"),
         "methodConfig[0].hedgingPolicy.hedgingDelay: must be a string such as \"1.5s\""},
        {HEDGING("\"maxAttempts\": 2"),
         "methodConfig[0].hedgingPolicy.nonFatalStatusCodes: is required"},
        {HEDGING("\"maxAttempts\": 2, \"nonFatalStatusCodes\": {}"),
         "methodConfig[0].hedgingPolicy.nonFatalStatusCodes: must be an array"},
        {METHOD("\"retryPolicy\": {" ATTEMPTS INITIAL LONGEST MULTIPLIER CODES
                "\"x\": 0}, \"hedgingPolicy\": {}"),
         "methodConfig[0].hedgingPolicy: a method has this or a retryPolicy, not both"},
        {"{\"retryThrottling\": 1}", "retryThrottling: must be an object"},
        {"{\"retryThrottling\": {}}", "retryThrottling.maxTokens: is required"},
        {"{\"retryThrottling\": {\"maxTokens\": 0}}",
         "retryThrottling.maxTokens: must be a whole number from 1 to 1000"},
        {"{\"retryThrottling\": {\"maxTokens\": 1001}}",
         "retryThrottling.maxTokens: must be a whole number from 1 to 1000"},
        {"{\"retryThrottling\": {\"maxTokens\": 10}}", "retryThrottling.tokenRatio: is required"},
        {"{\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0}}",
         "retryThrottling.tokenRatio: must be more than 0"},
        {"{\"loadBalancingPolicy\": 1}", "loadBalancingPolicy: must be a string"},
        {"{\"loadBalancingPolicy\": \"random\"}",
         "loadBalancingPolicy: \"random\" is no policy that is known"},
        {"{\"loadBalancingConfig\": {}}", "loadBalancingConfig: must be an array"},
        {"{\"loadBalancingConfig\": []}", "loadBalancingConfig: has no policy that is known"},
        {"{\"loadBalancingConfig\": [{\"xds\": {}}]}",
         "loadBalancingConfig: has no policy that is known"},
        {"{\"loadBalancingConfig\": [{\"xds\": {}, \"round_robin\": {}}]}",
         "loadBalancingConfig[0]: must be an object with one policy"},
        {"{\"loadBalancingConfig\": [{\"round_robin\": 1}]}",
         "loadBalancingConfig[0].round_robin: must be an object"},
        {"{\"healthCheckConfig\": {\"serviceName\": 1}}",
         "healthCheckConfig.serviceName: must be a string"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_problem(rows[i][0], rows[i][1]);
}

Test(service_config, text_that_is_no_json_is_told_with_the_line)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"a\": 1}}",
                                        "{'a': 1}",
                                        "{\"a\": 1, \"a\": 2}",
                                        "{\"a\": 01}",
                                        "{\"a\": \"\\ud800\"}",
                                        "{\"a\": 1,}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char problem[200] = "";
        pk_service_config *config = NULL;
        cr_assert_eq(pk_service_config_new(&config, texts[i], problem, sizeof problem),
                     PK_ERR_INVALID, "%s", texts[i]);
        cr_assert_eq(strncmp(problem, "line ", 5), 0, "%s: %s", texts[i], problem);
        cr_assert_eq(pk_service_config_new(&config, texts[i], NULL, 0), PK_ERR_INVALID);
    }
}
