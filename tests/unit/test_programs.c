/* Random programs of futures, steps and combinators, against a plain interpretation of them. */
#include <pekoe/testing.h>

#include "tests/support/future_fixture.h"

#include <stdlib.h>

TestSuite(programs, .init = start_futures, .timeout = 120);

/*
 * A program is a tree. It is run by the library on a frozen clock, and interpreted here: when does
 * it settle, with what, and was it pending at first? `cancel_at` is when the scope is cancelled.
 */
enum op {
    OP_DONE,
    OP_FAIL,
    OP_SLEEP,
    OP_THEN,
    OP_RECOVER,
    OP_FINALLY,
    OP_ALL,
    OP_ANY,
    OP_TIMEOUT,
    OP_LATER,
    OPS
};

struct program {
    enum op op;
    unsigned number; /* a value, a code, milliseconds */
    bool foreign;    /* of a sleep: in the other scope */
    unsigned count;
    struct program *children[3];
    pk_future kept; /* OP_LATER */
    bool used;
};

struct result {
    uint64_t at;
    bool pending; /* at first */
    bool done;
    unsigned number; /* value or code; groups of values are 1000 */
};

static struct program programs[4000];
static unsigned program_count;
static uint64_t random_state;
static uint64_t cancel_at;
static struct call model_call, model_other;
static unsigned cleanups_hung, cleanups_run;
static pk_status model_statuses[20];
static char model_values[100];

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (random_state >> 33) % below;
}

static struct program *make_program(unsigned depth)
{
    struct program *program = &programs[program_count++];
    *program = (struct program){.op = (enum op) draw(depth == 0 ? OP_THEN : OPS)};
    program->number = program->op == OP_DONE   ? draw(100)
                      : program->op == OP_FAIL ? 2 + draw(14)
                                               : 1 + draw(1000000);
    program->foreign = draw(3) == 0;
    program->count = program->op < OP_THEN                                 ? 0
                     : program->op == OP_THEN || program->op == OP_RECOVER ? 2
                     : program->op == OP_ALL || program->op == OP_ANY      ? 1 + draw(3)
                                                                           : 1;
    for (unsigned i = 0; i < program->count; i++)
        program->children[i] = make_program(depth - 1);
    return program;
}

static struct result cancelled_at(uint64_t at)
{
    return (struct result){.at = at, .pending = true, .number = PK_ABORTED};
}

static struct result interpret(const struct program *program, uint64_t start);

static struct result interpret_group(const struct program *program, uint64_t start)
{
    bool any = program->op == OP_ANY;
    struct result results[3], decisive = {0};
    bool pending = false, decided = false;
    for (unsigned i = 0; i < program->count; i++) {
        results[i] = interpret(program->children[i], start);
        pending |= results[i].pending;
        if (!results[i].pending && !decided && results[i].done == any) {
            decisive = results[i];
            decided = true;
        }
    }
    if (decided)
        return decisive;
    if (!pending)
        return any ? results[program->count - 1]
                   : (struct result){.at = start, .done = true, .number = 1000};
    if (start >= cancel_at)
        return cancelled_at(start);
    struct result last = {0};
    for (unsigned i = 0; i < program->count; i++) {
        if (!results[i].pending)
            continue;
        if (results[i].done == any && (!decided || results[i].at < decisive.at)) {
            decisive = results[i];
            decided = true;
        }
        if (results[i].at >= last.at)
            last = results[i];
    }
    struct result result = decided ? decisive : last;
    if (!decided && !any)
        result = (struct result){.at = last.at, .done = true, .number = 1000};
    result.pending = true;
    return result.at < cancel_at ? result : cancelled_at(cancel_at);
}

static struct result interpret(const struct program *program, uint64_t start)
{
    struct result first, next;
    switch (program->op) {
    case OP_DONE:
        return (struct result){.at = start, .done = true, .number = program->number};
    case OP_FAIL:
        return (struct result){.at = start, .number = program->number};
    case OP_SLEEP:
        if (start >= cancel_at)
            return cancelled_at(start);
        if (start + program->number >= cancel_at)
            return cancelled_at(cancel_at);
        return (struct result){.at = start + program->number, .pending = true, .done = true};
    case OP_THEN:
    case OP_RECOVER:
        first = interpret(program->children[0], start);
        if (first.done != (program->op == OP_THEN))
            return first;
        next = interpret(program->children[1], first.at);
        next.pending |= first.pending;
        return next;
    case OP_FINALLY:
        return interpret(program->children[0], start);
    case OP_ALL:
    case OP_ANY:
        return interpret_group(program, start);
    case OP_TIMEOUT:
        first = interpret(program->children[0], start);
        if (!first.pending)
            return first;
        if (start >= cancel_at)
            return cancelled_at(start);
        if (first.at > start + program->number)
            first = (struct result){.at = start + program->number, .number = PK_DEADLINE_EXCEEDED};
        first.pending = true;
        return first.at < cancel_at ? first : cancelled_at(cancel_at);
    case OP_LATER:
        if (start >= cancel_at)
            return cancelled_at(start);
        if (start + program->number >= cancel_at)
            return cancelled_at(cancel_at);
        first = interpret(program->children[0], start);
        if (first.at < start + program->number)
            first.at = start + program->number;
        first.pending = true;
        return first;
    case OPS:
        break;
    }
    abort();
}

static pk_future run_program(struct program *program);

static pk_future then_program(const void *value, void *arg)
{
    return run_program(arg);
}

static pk_future recover_program(const pk_status *status, void *arg)
{
    return run_program(arg);
}

static void count_cleanup(void *arg)
{
    cleanups_run++;
}

static pk_future use_kept(const void *value, void *arg)
{
    struct program *program = arg;
    program->used = true;
    return program->kept;
}

static void drop_kept_future(void *arg)
{
    struct program *program = arg;
    if (!program->used)
        pk_detach(program->kept);
}

static pk_future run_program(struct program *program)
{
    pk_scope *scope = &model_call.scope;
    pk_future futures[3];
    switch (program->op) {
    case OP_DONE:
        return pk_done(&model_values[program->number]);
    case OP_FAIL:
        return pk_failed_with(&model_statuses[program->number]);
    case OP_SLEEP:
        return pk_then(pk_sleep(program->foreign ? &model_other.scope : scope, program->number),
                       then_program, &programs[0]);
    case OP_THEN:
        return pk_then(run_program(program->children[0]), then_program, program->children[1]);
    case OP_RECOVER:
        return pk_recover(run_program(program->children[0]), recover_program, program->children[1]);
    case OP_FINALLY:
        cleanups_hung++;
        return pk_finally(run_program(program->children[0]), count_cleanup, NULL);
    case OP_ALL:
    case OP_ANY:
        for (unsigned i = 0; i < program->count; i++)
            futures[i] = run_program(program->children[i]);
        return program->op == OP_ALL ? pk_all(scope, futures, program->count)
                                     : pk_any(scope, futures, program->count);
    case OP_TIMEOUT:
        return pk_timeout(scope, run_program(program->children[0]), program->number);
    case OP_LATER:
        program->used = false;
        program->kept = run_program(program->children[0]);
        return pk_finally(pk_then(pk_sleep(scope, program->number), use_kept, program),
                          drop_kept_future, program);
    case OPS:
        break;
    }
    abort();
}

/* A random program with random cancelling; false where the model cannot say who came first. */
static void run_random_program(uint64_t seed)
{
    random_state = seed;
    program_count = 1;
    programs[0] = (struct program){.op = OP_DONE, .number = 0}; /* what follows each sleep */
    struct program *program = make_program(1 + draw(6));
    uint64_t steps = draw(4) == 0 ? 1 + draw(1500000) : 0;
    cancel_at = steps ? steps : UINT64_MAX;
    struct result expected = interpret(program, 0);
    start_call(&model_call);
    start_call(&model_other);
    cleanups_hung = cleanups_run = 0;
    struct outcome outcome = {0};
    struct pk_current outer = enter_scope(&model_call.scope);
    pk_await(&model_call.scope, run_program(program), note_outcome, &outcome);
    leave_scope(outer);
    cr_assert_eq(outcome.times, !expected.pending, "seed %lu", (unsigned long) seed);
    static const pk_status aborted = {.code = PK_ABORTED};
    uint64_t now = 0;
    for (unsigned phase = 0; phase < 3; phase++) {
        uint64_t until = phase == 0   ? (expected.at > 0 ? expected.at - 1 : 0)
                         : phase == 1 ? expected.at
                                      : 100000000;
        if (steps && now < steps && until >= steps) {
            pk_test_clock_advance(loop, steps - now);
            now = steps;
            pk_scope_cancel(&model_call.scope, &aborted);
            pk_loop_end_turn(loop);
        }
        pk_test_clock_advance(loop, until - now);
        now = until;
        if (phase == 0 && expected.pending && expected.at > 0)
            cr_assert_eq(outcome.times, 0, "seed %lu: too early", (unsigned long) seed);
        if (phase > 0)
            cr_assert_eq(outcome.times, 1, "seed %lu", (unsigned long) seed);
    }
    cr_assert_eq(outcome.state == PK_FUTURE_DONE, expected.done, "seed %lu: %s",
                 (unsigned long) seed, outcome.text);
    if (!expected.done)
        cr_assert_eq((unsigned) outcome.code, expected.number, "seed %lu: %s", (unsigned long) seed,
                     outcome.text);
    else if (expected.number < 1000)
        cr_assert_eq(outcome.value, &model_values[expected.number], "seed %lu",
                     (unsigned long) seed);
    end_call(&model_call);
    end_call(&model_other);
    cr_assert_eq(cleanups_run, cleanups_hung, "seed %lu", (unsigned long) seed);
    cr_assert_eq(loop->memory.live_blocks, blocks_before, "seed %lu leaves promises",
                 (unsigned long) seed);
    cr_assert_eq(loop->timer_count, 0);
}

Test(programs, random_programs_do_what_a_plain_interpretation_says)
{
    for (unsigned i = 0; i < 20; i++)
        model_statuses[i].code = (pk_code) i;
    pk_test_clock_freeze(loop);
    for (uint64_t seed = 1; seed <= 20000; seed++)
        run_random_program(seed);
    end_futures();
}
