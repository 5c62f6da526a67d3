/* What a step costs beyond its own instructions, counted one by one. */
#include <pekoe/future.h>

#include "tests/support/count_instructions.h"

#include <criterion/criterion.h>

#define COUNTED_STEPS 200
#define STEP_COST 15 /* docs/futures.md: 13 */

typedef pk_future direct_step(pk_future future, pk_step *step, void *arg);

struct counted {
    pk_step *step;
    direct_step *direct; /* the same, with the arguments of pk_then, so that those are no cost */
};

static pk_future pass_on(const void *value, void *arg)
{
    __asm__ volatile("");
    return pk_done(value);
}

static pk_future pass_on_directly(pk_future future, pk_step *step, void *arg)
{
    __asm__ volatile("");
    return pk_done(future.pointer);
}

static void keep_future(pk_future future)
{
    __asm__ volatile("" : : "r"(future.pointer), "r"(future.state));
}

static void call_steps(void *arg)
{
    const struct counted *counted = arg;
    direct_step *direct = counted->direct;
    for (int i = 0; i < COUNTED_STEPS; i++)
        keep_future(direct(pk_done(arg), counted->step, arg));
}

static void hang_up_steps(void *arg)
{
    const struct counted *counted = arg;
    for (int i = 0; i < COUNTED_STEPS; i++)
        keep_future(pk_then(pk_done(arg), counted->step, arg));
}

Test(step_cost, then_on_done_costs_less_than_15_instructions)
{
    struct counted counted = {pass_on, pass_on_directly};
    call_steps(&counted); /* symbols are bound, thread-local memory is there */
    hang_up_steps(&counted);
    long most = COUNTED_STEPS * 1000;
    long called = count_instructions(call_steps, &counted, most);
    long hung_up = count_instructions(hang_up_steps, &counted, most);
    cr_assert_gt(called, COUNTED_STEPS, "instructions cannot be counted here");
    cr_assert_gt(hung_up, called);
    cr_assert_lt(hung_up, most);
    long cost = (hung_up - called + COUNTED_STEPS / 2) / COUNTED_STEPS;
    cr_assert_lt(cost, STEP_COST, "%ld instructions", cost);
}
