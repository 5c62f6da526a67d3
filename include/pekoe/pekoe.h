/* Everything that a program needs, in one include. */
#ifndef PEKOE_PEKOE_H
#define PEKOE_PEKOE_H

#include <pekoe/base.h>
#include <pekoe/call.h>
#include <pekoe/channel.h>
#include <pekoe/future.h>
#include <pekoe/http.h>
#include <pekoe/interceptor.h>
#include <pekoe/loop.h>
#include <pekoe/message.h>
#include <pekoe/metadata.h>
#include <pekoe/raw.h>
#include <pekoe/server.h>
#include <pekoe/service.h>
#include <pekoe/service_config.h>
#include <pekoe/status.h>
#include <pekoe/stream.h>
#include <pekoe/tls.h>

#endif
