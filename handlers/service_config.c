/*
 * Service configs from JSON, by jansson, which no other file of the library includes. See
 * pekoe/service_config.h.
 *
 * A field that is null is one that is absent, as in all JSON of protobuf. The first problem ends the
 * reading.
 */
#include "handlers/service_config.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NANOSECONDS_PER_SECOND UINT64_C(1000000000)
#define NANOSECONDS_PER_MS UINT64_C(1000000)
#define SECONDS_MAX UINT64_C(315576000000) /* of google.protobuf.Duration */
#define TOKENS_MAX 1000

/* Where something is: a field of an object, or an element of an array. */
struct place {
    const struct place *outer;
    const char *field; /* NULL: an element */
    size_t index;
};

struct reading {
    char *problem;
    size_t problem_size;
    pk_service_config *config;
};

/* ---- Problems ---- */

static size_t print_place(char *text, size_t size, const struct place *place)
{
    size_t at = place->outer ? print_place(text, size, place->outer) : 0;
    size_t left = at < size ? size - at : 0;
    int length = place->field
                     ? snprintf(text + (left ? at : 0), left, "%s%s", at ? "." : "", place->field)
                     : snprintf(text + (left ? at : 0), left, "[%zu]", place->index);
    return at + (size_t) (length > 0 ? length : 0);
}

__attribute__((format(printf, 3, 4))) static int
wrong(const struct reading *reading, const struct place *place, const char *format, ...)
{
    char where[200], what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (place)
        print_place(where, sizeof where, place);
    if (reading->problem && reading->problem_size > 0)
        snprintf(reading->problem, reading->problem_size, "%s%s%s", place ? where : "",
                 place ? ": " : "", what);
    return PK_ERR_INVALID;
}

/* ---- Values ---- */

/* A field that is there and not null; else NULL. */
static json_t *get(json_t *object, const char *field)
{
    json_t *value = json_object_get(object, field);
    return json_is_null(value) ? NULL : value;
}

/* "1.5s", ".1s": google.protobuf.Duration, not negative. */
static int read_duration(const struct reading *reading, const struct place *place,
                         const json_t *value, uint64_t *ret_nanoseconds)
{
    const char *text = json_string_value(value);
    uint64_t seconds = 0, fraction = 0;
    size_t digits = 0, decimals = 0;
    if (!text)
        return wrong(reading, place, "must be a string such as \"1.5s\"");
    for (; *text >= '0' && *text <= '9' && seconds <= SECONDS_MAX; text++, digits++)
        seconds = 10 * seconds + (uint64_t) (*text - '0');
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9' && decimals < 9; text++, decimals++)
            fraction = 10 * fraction + (uint64_t) (*text - '0');
    }
    if (digits + decimals == 0 || strcmp(text, "s") != 0)
        return wrong(reading, place, "must be seconds, not negative, such as \"1.5s\"");
    if (seconds > SECONDS_MAX)
        return wrong(reading, place, "must be at most 315576000000s");
    for (; decimals < 9; decimals++)
        fraction *= 10;
    *ret_nanoseconds = seconds > UINT64_MAX / NANOSECONDS_PER_SECOND - 1
                           ? UINT64_MAX
                           : seconds * NANOSECONDS_PER_SECOND + fraction;
    return 0;
}

/* A duration in milliseconds, rounded up, that must be there and more than nothing. */
static int read_pause(const struct reading *reading, const struct place *outer, json_t *object,
                      const char *field, uint32_t *ret_ms)
{
    const struct place place = {outer, field, 0};
    json_t *value = get(object, field);
    uint64_t time;
    if (!value)
        return wrong(reading, &place, "is required");
    int r = read_duration(reading, &place, value, &time);
    if (r < 0)
        return r;
    if (time == 0)
        return wrong(reading, &place, "must be more than 0");
    uint64_t ms = time / NANOSECONDS_PER_MS + (time % NANOSECONDS_PER_MS > 0);
    *ret_ms = ms < UINT32_MAX ? (uint32_t) ms : UINT32_MAX;
    return 0;
}

/* An integer, as a number or, as protobuf's JSON has it too, as a string of digits. */
static bool integer_of(const json_t *value, int64_t *ret_number)
{
    const char *text = json_string_value(value);
    if (json_is_integer(value)) {
        *ret_number = json_integer_value(value);
        return true;
    }
    if (json_is_real(value)) {
        double real = json_real_value(value);
        if (real < -1e15 || real > 1e15 || real != (double) (int64_t) real)
            return false;
        *ret_number = (int64_t) real;
        return true;
    }
    if (!text || !*text || strlen(text) > 10 || strspn(text, "0123456789") != strlen(text))
        return false;
    *ret_number = (int64_t) strtoll(text, NULL, 10);
    return true;
}

static int read_limit(const struct reading *reading, const struct place *outer, json_t *object,
                      const char *field, size_t *ret_limit)
{
    const struct place place = {outer, field, 0};
    json_t *value = get(object, field);
    int64_t number;
    if (!value)
        return 0;
    if (!integer_of(value, &number) || number < 0 || number > UINT32_MAX)
        return wrong(reading, &place, "must be a number of bytes, at most 4294967295");
    if (number == 0)
        return wrong(reading, &place, "a limit of no bytes at all is not supported");
    *ret_limit = (size_t) number;
    return 0;
}

static int read_attempts(const struct reading *reading, const struct place *outer, json_t *object,
                         unsigned *ret_attempts)
{
    const struct place place = {outer, "maxAttempts", 0};
    json_t *value = get(object, place.field);
    int64_t number;
    if (!value)
        return wrong(reading, &place, "is required");
    if (!integer_of(value, &number))
        return wrong(reading, &place, "must be a whole number");
    if (number < 2)
        return wrong(reading, &place, "must be at least 2");
    *ret_attempts = number < 100 ? (unsigned) number : 100; /* more than 5 count as 5 anyway */
    return 0;
}

/* A status code by its name, in any case, or its number. */
static int read_code(const struct reading *reading, const struct place *place, const json_t *value,
                     uint32_t *codes)
{
    const char *text = json_string_value(value);
    for (int code = PK_OK; code <= PK_UNAUTHENTICATED; code++) {
        bool same = text ? strcasecmp(text, pk_code_name((pk_code) code)) == 0
                         : json_is_integer(value) && json_integer_value(value) == code;
        if (same) {
            *codes |= PK_CODE_BIT(code);
            return 0;
        }
    }
    if (!text)
        return wrong(reading, place, "must be the name of a status code");
    return wrong(reading, place, "\"%.40s\" is no status code", text);
}

/* Required, and not empty. */
static int read_codes(const struct reading *reading, const struct place *outer, json_t *object,
                      const char *field, uint32_t *ret_codes)
{
    const struct place place = {outer, field, 0};
    json_t *value = get(object, field);
    uint32_t codes = 0;
    if (!value)
        return wrong(reading, &place, "is required");
    if (!json_is_array(value))
        return wrong(reading, &place, "must be an array");
    if (json_array_size(value) == 0)
        return wrong(reading, &place, "must not be empty");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const struct place one = {&place, NULL, i};
        int r = read_code(reading, &one, json_array_get(value, i), &codes);
        if (r < 0)
            return r;
    }
    *ret_codes = codes;
    return 0;
}

/* A number that must be there and more than 0. */
static int read_factor(const struct reading *reading, const struct place *outer, json_t *object,
                       const char *field, double *ret_factor)
{
    const struct place place = {outer, field, 0};
    json_t *value = get(object, field);
    if (!value)
        return wrong(reading, &place, "is required");
    if (!json_is_number(value))
        return wrong(reading, &place, "must be a number");
    if (!(json_number_value(value) > 0))
        return wrong(reading, &place, "must be more than 0");
    *ret_factor = json_number_value(value);
    return 0;
}

/* An object's field, which may be absent: then *ret_object is NULL. */
static int read_object(const struct reading *reading, const struct place *place, json_t *outer,
                       json_t **ret_object)
{
    *ret_object = get(outer, place->field);
    if (*ret_object && !json_is_object(*ret_object))
        return wrong(reading, place, "must be an object");
    return 0;
}

/* ---- methodConfig ---- */

static int read_retry(const struct reading *reading, const struct place *outer, json_t *object,
                      pk_method_config *config)
{
    const struct place place = {outer, "retryPolicy", 0};
    json_t *policy;
    pk_retry_policy *retry = &config->retry;
    int r = read_object(reading, &place, object, &policy);
    if (r < 0 || !policy)
        return r;
    config->retries = true;
    if ((r = read_attempts(reading, &place, policy, &retry->max_attempts)) < 0 ||
        (r = read_pause(reading, &place, policy, "initialBackoff", &retry->initial_backoff_ms)) <
            0 ||
        (r = read_pause(reading, &place, policy, "maxBackoff", &retry->max_backoff_ms)) < 0 ||
        (r = read_factor(reading, &place, policy, "backoffMultiplier",
                         &retry->backoff_multiplier)) < 0)
        return r;
    return read_codes(reading, &place, policy, "retryableStatusCodes", &retry->codes);
}

static int read_hedging(const struct reading *reading, const struct place *outer, json_t *object,
                        pk_method_config *config)
{
    const struct place place = {outer, "hedgingPolicy", 0}, delay = {&place, "hedgingDelay", 0};
    json_t *policy;
    uint64_t time = 0;
    int r = read_object(reading, &place, object, &policy);
    if (r < 0 || !policy)
        return r;
    if (config->retries)
        return wrong(reading, &place, "a method has this or a retryPolicy, not both");
    config->hedges = true;
    r = read_attempts(reading, &place, policy, &config->hedging.max_attempts);
    if (r == 0 && get(policy, delay.field))
        r = read_duration(reading, &delay, get(policy, delay.field), &time);
    if (r < 0)
        return r;
    uint64_t ms = time / NANOSECONDS_PER_MS + (time % NANOSECONDS_PER_MS > 0);
    config->hedging.delay_ms = ms < UINT32_MAX ? (uint32_t) ms : UINT32_MAX;
    return read_codes(reading, &place, policy, "nonFatalStatusCodes", &config->hedging.codes);
}

/* "" where it is absent; NULL, and a problem, where it is no string. */
static const char *text_of(const struct reading *reading, const struct place *place, json_t *object)
{
    json_t *value = get(object, place->field);
    const char *text = value ? json_string_value(value) : "";
    if (!text)
        (void) wrong(reading, place, "must be a string");
    return text;
}

static int read_name(const struct reading *reading, const struct place *place, json_t *object,
                     size_t config)
{
    pk_service_config *all = reading->config;
    const struct place of_service = {place, "service", 0}, of_method = {place, "method", 0};
    if (!json_is_object(object))
        return wrong(reading, place, "must be an object");
    const char *service = text_of(reading, &of_service, object);
    const char *method = service ? text_of(reading, &of_method, object) : NULL;
    if (!method)
        return PK_ERR_INVALID;
    if (!*service && *method)
        return wrong(reading, &of_method, "has no service");
    size_t size = strlen(service) + strlen(method) + 3;
    char *path = malloc(size);
    struct pk_config_name *names = realloc(all->names, (all->name_count + 1) * sizeof *names);
    if (names)
        all->names = names;
    if (!path || !names) {
        free(path);
        return PK_ERR_NOMEM;
    }
    path[0] = '\0';
    if (*service)
        snprintf(path, size, "/%s/%s", service, method);
    for (size_t i = 0; i < all->name_count; i++) {
        if (strcmp(names[i].path, path) == 0) {
            free(path);
            return wrong(reading, place, "has been named before");
        }
    }
    names[all->name_count++] = (struct pk_config_name){path, config};
    return 0;
}

static int read_names(const struct reading *reading, const struct place *outer, json_t *object,
                      size_t config)
{
    const struct place place = {outer, "name", 0};
    json_t *names = get(object, place.field);
    if (names && !json_is_array(names))
        return wrong(reading, &place, "must be an array");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const struct place one = {&place, NULL, i};
        int r = read_name(reading, &one, json_array_get(names, i), config);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_method(const struct reading *reading, const struct place *place, json_t *object,
                       size_t index)
{
    pk_method_config *config = &reading->config->configs[index];
    const struct place wait = {place, "waitForReady", 0}, timeout = {place, "timeout", 0};
    if (!json_is_object(object))
        return wrong(reading, place, "must be an object");
    json_t *value = get(object, wait.field);
    if (value && !json_is_boolean(value))
        return wrong(reading, &wait, "must be true or false");
    config->wait_for_ready = json_is_true(value);
    int r = read_names(reading, place, object, index);
    if (r == 0 && (value = get(object, timeout.field))) {
        r = read_duration(reading, &timeout, value, &config->timeout);
        if (r == 0 && config->timeout == 0)
            config->timeout = 1; /* none is left: the call fails at once */
    }
    if (r < 0 ||
        (r = read_limit(reading, place, object, "maxRequestMessageBytes", &config->request_limit)) <
            0 ||
        (r = read_limit(reading, place, object, "maxResponseMessageBytes",
                        &config->response_limit)) < 0 ||
        (r = read_retry(reading, place, object, config)) < 0)
        return r;
    return read_hedging(reading, place, object, config);
}

static int read_methods(const struct reading *reading, json_t *root)
{
    const struct place place = {NULL, "methodConfig", 0};
    pk_service_config *config = reading->config;
    json_t *methods = get(root, place.field);
    if (!methods)
        return 0;
    if (!json_is_array(methods))
        return wrong(reading, &place, "must be an array");
    size_t count = json_array_size(methods);
    config->configs = calloc(count ? count : 1, sizeof *config->configs);
    if (!config->configs)
        return PK_ERR_NOMEM;
    config->config_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct place one = {&place, NULL, i};
        int r = read_method(reading, &one, json_array_get(methods, i), i);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- The rest ---- */

static int read_throttling(const struct reading *reading, json_t *root)
{
    const struct place place = {NULL, "retryThrottling", 0};
    const struct place most = {&place, "maxTokens", 0}, ratio = {&place, "tokenRatio", 0};
    pk_retry_throttling *throttling = &reading->config->throttling;
    json_t *object;
    int64_t tokens;
    int r = read_object(reading, &place, root, &object);
    if (r < 0 || !object)
        return r;
    if (!get(object, most.field))
        return wrong(reading, &most, "is required");
    if (!integer_of(get(object, most.field), &tokens) || tokens < 1 || tokens > TOKENS_MAX)
        return wrong(reading, &most, "must be a whole number from 1 to %d", TOKENS_MAX);
    r = read_factor(reading, &place, object, ratio.field, &throttling->token_ratio);
    if (r < 0)
        return r;
    /* Three decimals count; what is less than that is not nothing. */
    if (throttling->token_ratio < TOKENS_MAX)
        throttling->token_ratio = (double) (int64_t) (throttling->token_ratio * 1000 + 1e-9) / 1000;
    if (throttling->token_ratio <= 0)
        return wrong(reading, &ratio, "must be at least 0.001");
    throttling->max_tokens = (double) tokens;
    return 0;
}

/* The static name of a policy that there is; NULL: it is none. */
static const char *policy_of(const char *name, bool any_case)
{
    static const char *const known[] = {"pick_first", "round_robin"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (any_case ? strcasecmp(name, known[i]) == 0 : strcmp(name, known[i]) == 0)
            return known[i];
    }
    return NULL;
}

/* The first of the list that is known; each element has one field, the policy's name. */
static int read_balancing_list(const struct reading *reading, const struct place *place,
                               json_t *list)
{
    if (!json_is_array(list))
        return wrong(reading, place, "must be an array");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const struct place one = {place, NULL, i};
        json_t *element = json_array_get(list, i);
        if (!json_is_object(element) || json_object_size(element) != 1)
            return wrong(reading, &one, "must be an object with one policy");
        void *only = json_object_iter(element);
        const struct place policy = {&one, json_object_iter_key(only), 0};
        if (!json_is_object(json_object_iter_value(only)))
            return wrong(reading, &policy, "must be an object");
        if (!reading->config->load_balancing)
            reading->config->load_balancing = policy_of(policy.field, false);
    }
    return reading->config->load_balancing ? 0
                                           : wrong(reading, place, "has no policy that is known");
}

/* loadBalancingConfig goes before the older loadBalancingPolicy. */
static int read_balancing(const struct reading *reading, json_t *root)
{
    const struct place list = {NULL, "loadBalancingConfig", 0};
    const struct place older = {NULL, "loadBalancingPolicy", 0};
    json_t *value = get(root, list.field);
    if (value)
        return read_balancing_list(reading, &list, value);
    value = get(root, older.field);
    if (!value)
        return 0;
    const char *name = json_string_value(value);
    if (!name)
        return wrong(reading, &older, "must be a string");
    reading->config->load_balancing = policy_of(name, true);
    return reading->config->load_balancing
               ? 0
               : wrong(reading, &older, "\"%.40s\" is no policy that is known", name);
}

/* Checked, and not acted upon: no backend is asked for its health. */
static int check_health(const struct reading *reading, json_t *root)
{
    const struct place place = {NULL, "healthCheckConfig", 0};
    const struct place service = {&place, "serviceName", 0};
    json_t *object;
    int r = read_object(reading, &place, root, &object);
    if (r < 0 || !object)
        return r;
    return text_of(reading, &service, object) ? 0 : PK_ERR_INVALID;
}

static int read_root(const struct reading *reading, json_t *root)
{
    if (!json_is_object(root))
        return wrong(reading, NULL, "a service config must be an object");
    int r = read_methods(reading, root);
    if (r == 0)
        r = read_throttling(reading, root);
    if (r == 0)
        r = read_balancing(reading, root);
    return r == 0 ? check_health(reading, root) : r;
}

int pk_service_config_new(pk_service_config **ret_config, const char *json, char *ret_problem,
                          size_t problem_size)
{
    json_error_t error;
    struct reading reading = {ret_problem, problem_size, calloc(1, sizeof(pk_service_config))};
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    int r = !reading.config ? PK_ERR_NOMEM
            : !root         ? wrong(&reading, NULL, "line %d: %s", error.line, error.text)
                            : read_root(&reading, root);
    json_decref(root);
    if (r < 0)
        pk_service_config_free(reading.config);
    else
        *ret_config = reading.config;
    return r;
}

pk_service_config *pk_service_config_free(pk_service_config *config)
{
    if (!config)
        return NULL;
    for (size_t i = 0; i < config->name_count; i++)
        free(config->names[i].path);
    free(config->names);
    free(config->configs);
    free(config);
    return NULL;
}

const pk_method_config *pk_service_config_find(const pk_service_config *config, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t service = slash ? (size_t) (slash - path) + 1 : 0;
    const pk_method_config *found = NULL;
    size_t specific = 0;
    for (size_t i = 0; i < config->name_count; i++) {
        const char *name = config->names[i].path;
        const pk_method_config *one = &config->configs[config->names[i].config];
        if (strcmp(name, path) == 0)
            return one;
        bool of_service = *name && strlen(name) == service && memcmp(name, path, service) == 0;
        if (of_service || (!*name && specific == 0)) {
            found = one;
            specific = of_service;
        }
    }
    return found;
}
