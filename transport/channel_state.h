/* The state and the life of a channel, for the kinds of channels in this folder. */
#ifndef PEKOE_TRANSPORT_CHANNEL_STATE_H
#define PEKOE_TRANSPORT_CHANNEL_STATE_H

#include "core/channel.h"

/* Changes the state and tells those who wait for that. */
void pk_channel_set_state(pk_channel *channel, pk_channel_state next);

/* Gives back what the base holds: for ops->free. */
void pk_channel_done(pk_channel *channel);

#endif
