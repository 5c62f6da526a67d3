/*
 * A subchannel: addresses that are tried in order, and one connection to one of them. It connects
 * when it is told to, pauses after it has failed, and tells its host each change of its state.
 *
 * Called by balancing.c and the channel, which decide when to connect and what calls go where; a
 * subchannel knows no calls. Its connections outlive it where calls still run on them.
 */
#ifndef PEKOE_TRANSPORT_SUBCHANNEL_H
#define PEKOE_TRANSPORT_SUBCHANNEL_H

#include <pekoe/channel.h>

#include "transport/addresses.h"
#include "transport/backoff.h"
#include "transport/connection.h"

typedef struct pk_subchannel pk_subchannel;
typedef struct pk_subchannel_host pk_subchannel_host;

/* What the subchannels of one channel share. */
struct pk_subchannel_host {
    pk_connection_host connections; /* first: the way back from it */
    pk_tls_target tls;              /* its name is the channel's */
    pk_connection *ring;            /* of all connections, retired ones included; NULL: none */
    size_t connection_count;
    uint64_t attempt_time; /* nanoseconds for one attempt, the server's SETTINGS included */
    pk_backoff backoff;    /* what a subchannel begins with */
    /*
     * A connection that is lost is followed by another without being asked for: one that was lost
     * at once and unused then counts as a failed attempt, so that there is a pause.
     */
    bool reconnects;
    /* The state is another. The subchannel may be freed in there, and the host's owner too. */
    void (*changed)(pk_subchannel_host *host, pk_subchannel *subchannel);
    /* A pause is over: pk_subchannel_connect is to follow, now or later. */
    void (*rested)(pk_subchannel_host *host, pk_subchannel *subchannel);
    /* A turn of a ready connection is over: there may be room for streams. */
    void (*turned)(pk_subchannel_host *host);
    /* A connection is there, or has gone: the host has to stay as long as there is one. */
    void (*added)(pk_subchannel_host *host);
    void (*gone)(pk_subchannel_host *host);
};

struct pk_subchannel {
    pk_subchannel_host *host;
    pk_channel_state state;
    bool failing; /* since a failed attempt, until it is ready */
    bool leaving; /* of balancing.c: its addresses are no longer among those of the name */
    bool found;   /* likewise: scratch while they are compared */
    bool further; /* likewise: a connection more to an address that has one */
    bool used;    /* a call was opened on the connection */
    pk_addresses *addresses;
    size_t address;            /* the one that is tried, or connected */
    pk_connection *connection; /* ready, or waiting for SETTINGS; NULL: none */
    uint64_t since;            /* the time at which it became ready */
    int fd;                    /* of an attempt that waits for the peer; -1: none */
    pk_watch watch;
    pk_timer timer; /* an attempt's time, or a pause's */
    pk_backoff backoff;
    char peer[PK_ADDRESS_TEXT];
    char failure[480]; /* of the last attempt */
};

/* Prepares the fields that are about connections; the hooks are the caller's. */
void pk_subchannel_host_init(pk_subchannel_host *host, pk_loop *loop);

/* Once a second, while there are connections. */
void pk_subchannel_host_tick(pk_subchannel_host *host);

/* Whether no connection has a stream. */
bool pk_subchannel_host_quiet(const pk_subchannel_host *host);

/* Ends all connections; calls on them fail with UNAVAILABLE and `why`, which is static. */
void pk_subchannel_host_close(pk_subchannel_host *host, const char *why);

/* An idle one; takes the addresses. NULL without memory: the addresses are the caller's. */
pk_subchannel *pk_subchannel_new(pk_subchannel_host *host, pk_addresses *addresses_take);

/*
 * Takes NULL; returns NULL. Calls on its connection go on, and the connection ends with the last of
 * them. Nothing is told to the host.
 */
pk_subchannel *pk_subchannel_free(pk_subchannel *subchannel);

/* Gives one without a connection other addresses. */
void pk_subchannel_set_addresses(pk_subchannel *subchannel, pk_addresses *addresses_take);

/* Begins to connect, from the first address on, where it is idle or pauses. */
void pk_subchannel_connect(pk_subchannel *subchannel);

/* Pauses start small again; one that pauses is told to be rested now. */
void pk_subchannel_reset_backoff(pk_subchannel *subchannel);

/* The address that it is connected to, or tries. */
static inline const char *pk_subchannel_address(const pk_subchannel *subchannel)
{
    return subchannel->addresses->items[subchannel->address];
}

/* Whether its connection is ready and may take one more stream. */
static inline bool pk_subchannel_has_room(const pk_subchannel *subchannel)
{
    const pk_connection *connection = subchannel->connection;
    return subchannel->state == PK_CHANNEL_READY && connection && !connection->dead &&
           pk_http2_room_for_streams(&connection->exchanges.session) > 0;
}

#endif
