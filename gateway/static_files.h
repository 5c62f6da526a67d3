/*
 * The files of a folder to GET: for a page and its scripts, not for a web site.
 *
 * Nothing outside the folder is reached: no "..", no symbolic link is followed, names that begin
 * with a dot are not there. Files are read whole, up to 16 MiB.
 */
#ifndef PEKOE_GATEWAY_STATIC_FILES_H
#define PEKOE_GATEWAY_STATIC_FILES_H

#include <pekoe/http.h>

void gateway_static_serve(const char *folder, pk_http *http);

#endif
