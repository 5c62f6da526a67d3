/*
 * What a field block does to HPACK's table (RFC 7541), without decoding it.
 *
 * The HTTP/2 session asks this of blocks in both directions: one that leaves the table as it is means
 * the same as long as the table stays. Pure functions; they keep nothing.
 */
#ifndef PEKOE_TRANSPORT_HPACK_H
#define PEKOE_TRANSPORT_HPACK_H

#include <pekoe/base.h>

/*
 * Whether the block is whole and leaves the table as it is: indexed fields and literals that are not
 * added, no change of its size. Whether its indices exist and its texts are valid is not looked at.
 */
bool pk_hpack_block_inert(const uint8_t *block, size_t length);

#endif
