/*
 * Known field names: told apart by length first, so that a name costs one switch and one compare.
 */
#include "core/exchange.h"

#include <string.h>

/* The literal's length is a constant: the compare becomes one or two loads. */
#define IS(literal) (memcmp(name.bytes, literal, sizeof(literal) - 1) == 0)

pk_field_name pk_field_lookup(pk_slice name)
{
    switch (name.length) {
    case 2:
        return IS("te") ? PK_FIELD_TE : PK_FIELD_OTHER;
    case 4:
        return IS("host") ? PK_FIELD_AUTHORITY : PK_FIELD_OTHER;
    case 5:
        return IS(":path") ? PK_FIELD_PATH : PK_FIELD_OTHER;
    case 6:
        return IS("accept") ? PK_FIELD_ACCEPT : IS("origin") ? PK_FIELD_ORIGIN : PK_FIELD_OTHER;
    case 7:
        return IS(":method")   ? PK_FIELD_METHOD
               : IS(":scheme") ? PK_FIELD_SCHEME
               : IS(":status") ? PK_FIELD_STATUS
                               : PK_FIELD_OTHER;
    case 10:
        return IS(":authority")   ? PK_FIELD_AUTHORITY
               : IS("user-agent") ? PK_FIELD_USER_AGENT
                                  : PK_FIELD_OTHER;
    case 12:
        return IS("content-type")   ? PK_FIELD_CONTENT_TYPE
               : IS("grpc-timeout") ? PK_FIELD_GRPC_TIMEOUT
                                    : PK_FIELD_OTHER;
    case 13:
        return IS("grpc-encoding") ? PK_FIELD_GRPC_ENCODING : PK_FIELD_OTHER;
    case 14:
        return IS("content-length") ? PK_FIELD_CONTENT_LENGTH : PK_FIELD_OTHER;
    case 15:
        return IS("accept-encoding") ? PK_FIELD_ACCEPT_ENCODING : PK_FIELD_OTHER;
    case 16:
        return IS("content-encoding") ? PK_FIELD_CONTENT_ENCODING : PK_FIELD_OTHER;
    case 20:
        return IS("grpc-accept-encoding") ? PK_FIELD_GRPC_ACCEPT_ENCODING : PK_FIELD_OTHER;
    default:
        return PK_FIELD_OTHER;
    }
}
