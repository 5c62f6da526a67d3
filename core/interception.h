/* One registered interceptor, as routers and channels keep it. */
#ifndef PEKOE_CORE_INTERCEPTION_H
#define PEKOE_CORE_INTERCEPTION_H

#include <pekoe/interceptor.h>

struct pk_interception {
    pk_interceptor *fn;
    void *self;
};

#endif
